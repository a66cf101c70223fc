"""A machine whose power can be cut: one disk with an ext4 file system, and processes.

The file system is a file mounted in its own mount namespace, with another boot id at every start. The cut kills the
scheduler, and in the same instant `EXT4_IOC_SHUTDOWN` stops the disk without flushing the journal: from then on nothing
reaches it. Then every other process of the namespace is killed, and the next start replays the journal as after a real
power cut.

The scheduler must not outlive its disk: a machine without power acknowledges nothing, and the kernel does not promise
that an `fsync` under way fails when a file system is shut down.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from scheduler.discovery.statefolder import StateFolder

PATIENCE = 60.0

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = struct.pack("I", 2)
# Without auto_da_alloc: a rename does not flush a file's content to the disk, as on most other file systems.
_BOOT = """
set -e
mount -o loop,noauto_da_alloc "$1" "$2"
mount --bind "$3" /proc/sys/kernel/random/boot_id
shift 3
exec "$@"
"""


class Machine:
    """`start` boots it with a scheduler; `cut` cuts its power. The disk is kept in between."""

    def __init__(self, folder: Path, megabytes: int = 128) -> None:
        self.folder = folder
        self.log = folder / "log"
        self._image = folder / "disk"
        self.point = folder / "mounted"
        self._boot = folder / "boot_id"
        self._process: subprocess.Popen[bytes] | None = None
        self.point.mkdir()
        with self._image.open("wb") as image:
            image.truncate(megabytes * 2**20)
        _need("mkfs.ext4", "-q", "-F", str(self._image))
        self.run("true")
        self._wait_until_unmounted()

    @property
    def disk(self) -> Path:
        """The mounted file system, seen from outside its namespace."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/root{self.point}")

    @property
    def state(self) -> StateFolder:
        return StateFolder(self.disk / "state")

    def run(self, *command: str) -> subprocess.Popen[bytes]:
        """Boot, and run a command; skips where mounting is not permitted."""
        self._boot.write_text(f"{uuid.uuid4()}\n")
        before = self.log.stat().st_size if self.log.exists() else 0
        ready, told = os.pipe()
        script = _BOOT.replace("exec", f"echo >&{told}; exec {told}>&-; exec")
        arguments = ["sh", str(self._image), str(self.point), str(self._boot), *command]
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("RUNAI_", "COV_"))}
        with self.log.open("ab") as log, open(ready, "rb") as line:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "bash", "-c", script, *arguments],
                stdout=log,
                stderr=log,
                pass_fds=(told,),
                start_new_session=True,
                env=ours,
            )
            os.close(told)
            if not line.read():
                self._process.wait()
                pytest.skip(f"needs to mount: {self.log.read_text(errors='replace')[before:].strip()}")
        return self._process

    def start(self) -> None:
        """Boot and start a scheduler; does not wait until it is ready."""
        self.run(
            *(sys.executable, "-m", "scheduler.service.app", f"--state-dir={self.point / 'state'}"),
            *("--auth=token", "--ip=127.0.0.1", "--declared-gpus=8"),
        )

    def wait_until_ready(self) -> str:
        """The scheduler's address."""
        assert self._process is not None
        end = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None, self.log.read_text(errors="replace")
            endpoint = self.state.endpoint()
            if endpoint is not None and endpoint.pid == self._process.pid:
                return endpoint.url
            assert time.monotonic() < end, self.log.read_text(errors="replace")
            time.sleep(0.01)

    def cut(self) -> None:
        """Cut the power: all processes are killed, and unwritten data is lost."""
        assert self._process is not None
        namespace = os.readlink(f"/proc/{self._process.pid}/ns/mnt")
        disk = os.open(self.disk, os.O_RDONLY)
        try:
            self._process.kill()  # the open folder keeps the disk mounted
            fcntl.ioctl(disk, _EXT4_IOC_SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(disk)
        _kill_all(namespace)
        self._wait_until_unmounted()

    def _wait_until_unmounted(self) -> None:
        assert self._process is not None
        self._process.wait(PATIENCE)
        end = time.monotonic() + PATIENCE
        while subprocess.run(["losetup", "-j", str(self._image)], capture_output=True, check=True).stdout:
            assert time.monotonic() < end, "the disk is still mounted"
            time.sleep(0.01)

    def destroy(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.cut()


def _kill_all(namespace: str) -> None:
    """Kill every process of a mount namespace, including those being started."""
    found = True
    while found:
        found = False
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/ns/mnt") == namespace:
                    os.kill(int(name), signal.SIGKILL)
                    found = True


def _need(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"needs {command[0]}, which this machine does not have")
    if done.returncode:
        pytest.skip(f"needs {command[0]}: {done.stderr.strip()}")
