"""Runs between the scheduler and a worker: starts the worker, waits for it, and records how it ended.

Standard library only: it needs nothing of the environment that the scheduler lives in. The launcher (`launcher.py`)
forks a *supervisor* for each worker. The launcher ends with the scheduler; supervisors do not.

Guarantees:
- A worker starts at most once: the process that creates `claim`, by a link that fails if the file exists, starts it.
  The claim stays locked as long as its supervisor lives, so that every process can check it. It names the boot of the
  machine: after a power cut, the claim belongs to an earlier boot, of which no process is left. So it need not be
  written durably.
- A supervisor holds the launcher's lock until it has its claim.
- `exit.json` is written, durably, before the supervisor ends; its space on the disk, and that of `status.json`, is
  taken before the worker starts.
- The supervisor ends only when every descendant of the worker is gone; their GPUs are free then.
- The worker is killed when its supervisor is (Linux).
- The grace period is counted here, from the SIGTERM that the engine sends; `stop` beside the ranks says how long it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from typing import Any

from scheduler.worker.logtimes import SECONDS, LogTimesFile
from scheduler.worker.processes import (
    COULD_NOT_START,
    LINUX,
    adopt_orphans,
    die_with,
    exit_status,
    how_it_ended,
    kill,
    reap_orphans,
    signal_group,
    signal_pipe,
    why_not,
)

_LOG_RATE = 256 * 2**20  # bytes a second that a log is expected to grow by at most


def boot() -> str:
    """An id of this boot of the machine; empty if the system does not provide one."""
    if not LINUX:
        return os.popen("sysctl -n kern.bootsessionuuid 2>/dev/null").read().strip()
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def identity(pid: int) -> str | None:
    """Distinguishes a process from a later one with the same number: its boot and start time; None if there is no such
    process."""
    if not LINUX:
        return os.popen(f"ps -o lstart= -p {pid}").read().strip() or None
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return f"{boot()}:{stat.read().rpartition(b') ')[2].split()[19].decode()}"
    except (FileNotFoundError, ProcessLookupError):
        return None


def supervise(engine: socket.socket, lock: int) -> None:
    """Read a worker's folder from the engine, claim and start the worker, confirm that, and wait for its end."""
    folder = engine.recv(65536).decode()
    wake = _listen(folder)
    with open(os.path.join(folder, "spec.json")) as file:
        spec = json.load(file)
    claimed = claim(folder, os.getpid())
    os.close(lock)
    worker = _start(folder, spec) if claimed is not None else None
    with contextlib.suppress(OSError):  # the scheduler may be gone; its successor reads the files
        engine.send(b"1")
    engine.close()
    if worker is not None:
        _wait_for_worker(folder, spec, worker, wake)


def _listen(folder: str) -> int:
    """Make signals readable, and errors too (`supervisor.log`); returns the descriptor to wait on."""
    complaints = os.open(os.path.join(folder, "supervisor.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(complaints, 2)
    os.close(complaints)
    return signal_pipe()[0]


def claim(folder: str, pid: int) -> int | None:
    """Claim a worker; returns the descriptor that holds the claim's lock, or None if it has been claimed before.

    With 0 for `pid`, no process can start the worker any more.
    """
    path = os.path.join(folder, "claim")
    mine = f"{path}.{os.getpid()}.{threading.get_ident()}"
    descriptor = os.open(mine, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        if pid:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, f"{pid} {boot()}".encode())
        os.link(mine, path)
    except FileExistsError:
        os.close(descriptor)
        return None
    finally:
        os.unlink(mine)
    return descriptor


def _start(folder: str, spec: dict[str, Any]) -> int | None:
    """Start the worker; returns its process, or None if that failed (the reason is recorded)."""
    supervisor = os.getpid()
    for name in ("exit.json", "status.json"):
        _reserve(folder, name)

    def in_the_worker() -> None:
        die_with(supervisor)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)

    adopt_orphans()
    started = time.time()  # before `stop` is checked: no worker starts after it was asked to stop
    if os.path.exists(os.path.join(folder, os.pardir, "stop")):
        write_exit(folder, {"exit_code": None, "reason": "it was stopped before it started."})
        return None
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    _join(spec.get("cgroup"), log)
    try:
        worker = subprocess.Popen(
            spec["command"],
            cwd=spec["cwd"],
            env=spec["env"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=in_the_worker,  # after it has become the user
            **(spec.get("user") or {}),
        )
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        sentence = why_not(error, spec["command"][0], spec["cwd"])
        os.write(log, f"{sentence}\n".encode())
        write_exit(folder, {"exit_code": COULD_NOT_START, "reason": sentence})
        return None
    finally:
        os.close(log)
    status = {"pid": worker.pid, "identity": identity(worker.pid), "started": started}
    _write(folder, "status.json", status, durably=False)  # of no use after the machine has failed
    worker.returncode = 0  # it is waited for below, not by subprocess
    return worker.pid


def _join(group: str | None, log: int) -> None:
    """Join the control group whose processes share a limit of GPU memory; the worker inherits it."""
    if not group:
        return
    try:
        with open(os.path.join(group, "cgroup.procs"), "w") as file:
            file.write("0")
    except OSError as error:
        os.write(log, f"[The driver's limit of GPU memory does not apply to this worker: {error}.]\n".encode())


# -- until the end ------------------------------------------------------------------------------------------


def _wait_for_worker(folder: str, spec: dict[str, Any], worker: int, wake: int) -> None:
    """Wait for the worker, pass a stop on to its processes, write down its end, and end with the last of them.

    The worker stays a zombie until all others are gone, so that its number, and its group's, is nobody else's.
    """
    log = os.path.join(folder, "log")
    times = LogTimesFile(f"{log}.times")
    deadline: float | None = None
    killed = False
    how: dict[str, Any] | None = None
    written = False
    while True:
        if how is None and (status := exit_status(worker)) is not None:
            reason = how_it_ended(status, deadline, killed)
            how = {"exit_code": status, "reason": reason, "stopped": deadline is not None}
        others = reap_orphans(worker)  # read after the worker's end, at which its children come to this process
        size, pause = _bound(log, spec["log_limit"])
        times.look(size, time.time(), last=how is not None)
        if how is not None and not written:
            written = write_exit(folder, how)
        if written and not others:
            if not LINUX:
                signal_group(worker, signal.SIGKILL)  # what is left of it did not come to this process
            with contextlib.suppress(OSError):
                os.close(os.open(os.path.join(folder, "done"), os.O_WRONLY | os.O_CREAT, 0o600))
            return
        now = time.monotonic()
        if (how is not None and deadline is None) or (deadline is not None and now >= deadline):
            killed = True
            kill(worker, others)
        if killed or how is not None:
            pause = min(pause, 0.05)
        elif deadline is not None:
            pause = min(pause, deadline - now)
        if _terminated(wake, pause):
            end = time.monotonic() + grace_of(folder, spec)
            deadline = end if deadline is None else min(deadline, end)
            if how is None:
                signal_group(worker, signal.SIGTERM)
                signal_group(worker, signal.SIGCONT)  # so that a suspended process receives it, too


def _terminated(wake: int, pause: float) -> bool:
    """Wait for a signal or until `pause` is over; says whether SIGTERM has come."""
    select.select([wake], [], [], max(0.0, pause))
    try:
        return signal.SIGTERM in os.read(wake, 4096)
    except BlockingIOError:
        return False


def grace_of(folder: str, spec: dict[str, Any]) -> float:
    """The grace period in seconds: the engine's, or the job's if another process sent SIGTERM."""
    longest = float(spec["grace"])
    try:
        with open(os.path.join(folder, os.pardir, "stop"), "rb") as file:
            grace = float(json.loads(file.read(4096))["grace"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return longest
    return grace if 0 <= grace < longest else longest  # the job can write there, too


def _bound(log: str, limit: int) -> tuple[int, float]:
    """Cut a log that is over its limit; returns its size, and for how long it cannot be over the limit again.

    The worker writes to the file itself, so its output costs nothing and survives every crash. The supervisor checks
    the size from time to time and removes what is over the limit.
    """
    notice = f"\n[The log has reached its limit of {limit} bytes; further output is discarded.]\n".encode()
    try:
        size = os.stat(log).st_size
        if size > limit + len(notice):
            os.truncate(log, limit)
            with open(log, "ab") as file:
                file.write(notice)
            size = limit + len(notice)
    except OSError:
        return 0, SECONDS
    return size, min(SECONDS, max(0.25, (limit - size) / _LOG_RATE))


# -- files ----------------------------------------------------------------------------------------


def _reserve(folder: str, name: str) -> None:
    """Reserve the space for a file now: a full disk is a common end of a job, and must not hide how it ended."""
    descriptor = os.open(os.path.join(folder, f"{name}.tmp"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b" " * 4096)
    finally:
        os.close(descriptor)


def write_exit(folder: str, how: dict[str, Any]) -> bool:
    """Record how the worker ended; False if this must be tried again because the disk is full."""
    try:
        _write(folder, "exit.json", {**how, "ended": time.time()})
    except FileNotFoundError:
        return True  # the job has been deleted; nobody will ask
    except OSError:
        return False
    return True


def _write(folder: str, name: str, content: dict[str, Any], *, durably: bool = True) -> None:
    """Write a file atomically."""
    path = os.path.join(folder, name)
    data = json.dumps(content).encode()
    descriptor = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data)
        os.ftruncate(descriptor, len(data))
        if durably:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(f"{path}.tmp", path)
    if durably:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
