"""The launcher and its supervisors alone, as installed by a wheel: a few files, run by path."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.worker import launcher, supervisor
from scheduler.worker.processes import how_it_ended, why_not
from scheduler.worker.supervisor import identity

PATIENCE = 20.0


class Line:
    """The scheduler's end of the connection to a launcher."""

    def __init__(self, state: Path, script: Path) -> None:
        self.state = state
        self._line, its = socket.socketpair()
        self._line.settimeout(PATIENCE)
        command = [sys.executable, "-I", "-S", str(script), str(state), "256"]
        with its:
            self.process = subprocess.Popen(command, stdin=its.fileno(), stdout=subprocess.DEVNULL, cwd="/", env={})
        assert self._line.recv(1) == b"1"

    def start(self, folder: Path) -> bytes:
        """The supervisor's answer: b"1", or nothing if it has ended."""
        ours, its = socket.socketpair()
        ours.settimeout(PATIENCE)
        with ours, its:
            ours.send(os.fsencode(folder))
            socket.send_fds(self._line, [b"1"], [its.fileno()])
            its.close()
            return ours.recv(1)

    def close(self) -> None:
        self._line.close()
        assert self.process.wait(PATIENCE) == 0


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    (tmp_path / "state").mkdir()
    alone = tmp_path / "elsewhere/scheduler/worker"
    alone.mkdir(parents=True)
    for name in ("launcher.py", "logtimes.py", "processes.py", "supervisor.py"):
        shutil.copy(Path(supervisor.__file__).with_name(name), alone)
    line = Line(tmp_path / "state", alone / "launcher.py")
    yield line
    line.close()


def worker(state: Path, *command: str, rank: int = 0, **spec: object) -> Path:
    folder = state / "attempt" / str(rank)
    folder.mkdir(parents=True)
    content = {
        "command": command,
        "cwd": str(state),
        "env": {"A": "b"},
        "grace": 5,
        "log_limit": 10_000,
        **spec,
    }
    (folder / "spec.json").write_text(json.dumps(content))
    return folder


def gone(folder: Path) -> None:
    """Wait until a supervisor has ended."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(int((folder / "claim").read_text().split()[0]))
        try:
            assert select.select([process], [], [], PATIENCE)[0]
        finally:
            os.close(process)


def test_a_supervisor_starts_a_worker_and_records_its_end(line: Line) -> None:
    folder = worker(line.state, "/bin/sh", "-c", "echo $A; pwd; exit 3")
    assert line.start(folder) == b"1"
    gone(folder)
    end = json.loads((folder / "exit.json").read_text())
    assert (end["exit_code"], end["reason"]) == (3, "")
    assert (folder / "log").read_text() == f"b\n{line.state}\n"
    assert (folder / "supervisor.log").read_text() == ""
    assert sorted(path.name for path in folder.iterdir()) == [
        *("claim", "done", "exit.json", "log", "log.times", "spec.json", "status.json", "supervisor.log")
    ]


def test_a_claimed_worker_is_not_started(line: Line) -> None:
    folder = worker(line.state, "/bin/sh", "-c", "echo started")
    (folder / "claim").write_text("0")
    assert line.start(folder) == b"1"
    assert not (folder / "log").exists()
    assert (folder / "claim").read_text() == "0"


def test_without_a_specification_it_exits_with_the_reason(line: Line) -> None:
    folder = worker(line.state, "/bin/true")
    (folder / "spec.json").unlink()
    assert line.start(folder) == b""
    assert "spec.json" in (folder / "supervisor.log").read_text()
    assert not (folder / "claim").exists()


def test_a_launcher_is_not_stopped_by_signals_but_by_its_scheduler(line: Line) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        line.process.send_signal(number)
    folder = worker(line.state, "/bin/true")
    assert line.start(folder) == b"1"
    gone(folder)


def test_a_supervisor_outlives_its_launcher(tmp_path: Path) -> None:
    line = Line(tmp_path, Path(launcher.__file__))
    folder = worker(tmp_path, "/bin/sh", "-c", "read go < go; exit 4")
    os.mkfifo(tmp_path / "go")
    assert line.start(folder) == b"1"
    line.close()
    (tmp_path / "go").write_text("\n")
    gone(folder)
    assert json.loads((folder / "exit.json").read_text())["exit_code"] == 4


def test_it_needs_only_the_standard_library(tmp_path: Path) -> None:
    code = "import sys; sys.path.append(sys.argv[1]); from scheduler.worker import launcher, supervisor\n"
    code += "print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(Path(supervisor.__file__).parents[2])],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names - {"__main__", "scheduler"} == set()


def test_a_full_disk_does_not_hide_how_a_job_ended(tmp_path: Path) -> None:
    """The most common failure: the job has filled the disk."""
    state = tmp_path / "state"
    state.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(state)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk, which this machine does not give")
    try:
        line = Line(state, Path(launcher.__file__))
        folder = worker(state, "/bin/sh", "-c", "/bin/cat /dev/zero > full; exit 6")
        assert line.start(folder) == b"1"
        gone(folder)
        line.close()
        assert os.statvfs(state).f_bavail == 0
        assert json.loads((folder / "exit.json").read_text())["exit_code"] == 6
    finally:
        subprocess.run(["umount", "--lazy", str(state)], check=True)


def test_a_process_is_distinguished_from_a_later_one_with_its_pid() -> None:
    process = subprocess.Popen(["sleep", "600"])
    first = identity(process.pid)
    assert first == identity(process.pid)
    assert first != identity(os.getpid())
    process.kill()
    process.wait()
    assert identity(process.pid) is None


@pytest.mark.parametrize(
    ("status", "stopped", "killed", "sentence"),
    [
        (0, False, False, ""),
        (2, False, False, ""),
        (-15, False, False, ""),
        (-9, False, False, "it was killed by SIGKILL; perhaps the machine ran out of memory."),
        (0, True, False, "it was stopped."),
        (-15, True, False, "it was stopped."),
        (-9, True, True, "it was killed at the end of its grace period."),
    ],
)
def test_an_end_is_told_in_a_sentence(status: int, stopped: bool, killed: bool, sentence: str) -> None:
    assert how_it_ended(status, 1.0 if stopped else None, killed) == sentence


def test_a_command_that_is_too_long_is_said_to_be() -> None:
    with pytest.raises(OSError, match="too long") as error:
        subprocess.Popen(["/bin/true", "x" * 2**22])
    assert why_not(error.value, "/bin/true", "/") == ("`/bin/true` could not be started (Argument list too long).")
