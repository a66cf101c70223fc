"""What stands between the scheduler and a worker: starts it, waits for it, and writes down how it ended.

Standard library only: it needs nothing of the environment that the scheduler lives in. The launcher (`launcher.py`)
forks a *supervisor* for each worker. The launcher ends with the scheduler; supervisors do not.

What must hold:
- A worker is started once at the most: who makes `claim`, by a link that fails where there is one, starts it. The claim
  stays locked as long as its supervisor lives, so that anybody can tell. It names the boot of the machine: what a power
  cut leaves of it was made before, and nothing of that runs any more. So it need not wait for the disk.
- A supervisor holds the launcher's lock until it has its claim.
- `exit.json` is written, durably, before the supervisor ends; its space on the disk, and that of `status.json`, is
  taken before the worker starts.
- The supervisor ends only when every process that came of the worker is gone; their GPUs are free then.
- The worker is killed when its supervisor is (Linux).
- The grace period is counted here, from the SIGTERM that the engine sends; `stop` beside the ranks says how long it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

LINUX = sys.platform == "linux"
COULD_NOT_START = 127

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_prctl = ctypes.CDLL(None).prctl if LINUX else None
_LOG_RATE = 256 * 2**20  # bytes a second that a log is expected to grow by at most


def boot() -> str:
    """What tells this boot of the machine from all others; empty where the system does not say."""
    if not LINUX:
        return os.popen("sysctl -n kern.bootsessionuuid 2>/dev/null").read().strip()
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def identity(pid: int) -> str | None:
    """What tells a process from a later one of the same number: its start time and the boot; None where there is
    none."""
    if not LINUX:
        return os.popen(f"ps -o lstart= -p {pid}").read().strip() or None
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return f"{boot()}:{stat.read().rpartition(b') ')[2].split()[19].decode()}"
    except (FileNotFoundError, ProcessLookupError):
        return None


def supervise(engine: socket.socket, lock: int) -> None:
    """Read a worker's folder from the engine, claim and start the worker, say so, and see it to its end."""
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
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return readable


def claim(folder: str, pid: int) -> int | None:
    """Take a worker, for good and once; returns the lock that says the taker lives, None where it was taken before.

    With 0 for `pid` it is taken so that nobody starts it.
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
    """Start the worker; returns its process, or None where it could not be started (and the reason is written down)."""
    supervisor = os.getpid()
    for name in ("exit.json", "status.json"):
        _reserve(folder, name)

    def in_the_worker() -> None:
        if _prctl is not None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(COULD_NOT_START)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)

    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    started = time.time()  # before the look at `stop`: none that starts does so after it was asked to stop
    if os.path.exists(os.path.join(folder, os.pardir, "stop")):
        write_exit(folder, {"exit_code": None, "reason": "it was stopped before it started."})
        return None
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
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


def why_not(error: Exception, name: str, cwd: str) -> str:
    """One sentence that says why a command could not be started."""
    if isinstance(error, OSError) and error.filename == cwd and error.filename != name:
        return f"The working directory of the job cannot be entered ({error.strerror})."
    found = os.path.join(cwd, name) if "/" in name else None
    if isinstance(error, FileNotFoundError):
        if found is not None and os.path.exists(found):
            return f"The first line of `{name}` names an interpreter that does not exist."
        where = "" if found is not None else " in the folders of PATH"
        return f"Command not found: `{name}`{where}."
    if isinstance(error, PermissionError):
        if found is not None and os.path.isdir(found):
            return f"`{name}` is a folder, not a command."
        return f"`{name}` is not executable; run chmod +x on it, or put its interpreter in front of it."
    if isinstance(error, OSError) and error.strerror:
        return f"`{name}` could not be started ({error.strerror})."
    return f"`{name}` could not be started ({error})."


# -- until the end ------------------------------------------------------------------------------------------


def _wait_for_worker(folder: str, spec: dict[str, Any], worker: int, wake: int) -> None:
    """Wait for the worker, pass a stop on to its processes, write down its end, and end with the last of them.

    The worker stays a zombie until all others are gone, so that its number, and its group's, is nobody else's.
    """
    deadline: float | None = None
    killed = False
    how: dict[str, Any] | None = None
    written = False
    while True:
        others = _reap_orphans(worker)
        if how is None and (status := _ended(worker)) is not None:
            reason = how_it_ended(status, deadline, killed)
            how = {"exit_code": status, "reason": reason, "stopped": deadline is not None}
        if how is not None and not written:
            written = write_exit(folder, how)
        if written and not others:
            if not LINUX:
                _signal_group(worker, signal.SIGKILL)  # what is left of it did not come to this process
            with contextlib.suppress(OSError):
                os.close(os.open(os.path.join(folder, "done"), os.O_WRONLY | os.O_CREAT, 0o600))
            return
        now = time.monotonic()
        if (how is not None and deadline is None) or (deadline is not None and now >= deadline):
            killed = True
            _kill(worker, others)
        pause = _bound(os.path.join(folder, "log"), spec["log_limit"])
        if killed or how is not None:
            pause = min(pause, 0.05)
        elif deadline is not None:
            pause = min(pause, deadline - now)
        if _terminated(wake, pause):
            end = time.monotonic() + grace_of(folder, spec)
            deadline = end if deadline is None else min(deadline, end)
            if how is None:
                _signal_group(worker, signal.SIGTERM)
                _signal_group(worker, signal.SIGCONT)  # a process that stands still hears it, too


def _terminated(wake: int, pause: float) -> bool:
    """Wait for a signal or until `pause` is over; says whether SIGTERM has come."""
    select.select([wake], [], [], max(0.0, pause))
    try:
        return signal.SIGTERM in os.read(wake, 4096)
    except BlockingIOError:
        return False


def _ended(worker: int) -> int | None:
    """The worker's exit status once it has one; negative for a signal."""
    result = os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _reap_orphans(worker: int) -> list[int]:
    """Take in those of the worker's descendants that have come to this process and ended; returns the others."""
    living = []
    for pid in _children():
        with contextlib.suppress(ChildProcessError):
            if pid != worker and os.waitpid(pid, os.WNOHANG)[0] == 0:
                living.append(pid)
    return living


def _children() -> list[int]:
    """This process's children. Orphans of the worker are among them, on Linux."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel that does not list them: look at all processes
        numbers = (int(name) for name in (os.listdir("/proc") if LINUX else ()) if name.isdigit())
        return [pid for pid in numbers if _parent(pid) == os.getpid()]


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b") ")[2].split()[1])
    except OSError:
        return None


def _kill(worker: int, others: list[int]) -> None:
    """Kill the worker's group and the orphans; their children come to this process in turn, until none is left."""
    _signal_group(worker, signal.SIGKILL)
    for pid in others:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _signal_group(worker: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # EPERM: all of them zombies, on macOS
        os.killpg(worker, number)


def how_it_ended(status: int, deadline: float | None, killed: bool) -> str:
    """What the exit status does not say by itself; often nothing."""
    if killed:
        return "it was killed at the end of its grace period."
    if deadline is not None:
        return "it was stopped."
    if status == -signal.SIGKILL:
        return "it was killed by SIGKILL; perhaps the machine ran out of memory."
    return ""


def grace_of(folder: str, spec: dict[str, Any]) -> float:
    """How long a stop may take: as the engine wrote it, or as the job has it where somebody else sent SIGTERM."""
    longest = float(spec["grace"])
    try:
        with open(os.path.join(folder, os.pardir, "stop"), "rb") as file:
            grace = float(json.loads(file.read(4096))["grace"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return longest
    return grace if 0 <= grace < longest else longest  # the job can write there, too


def _bound(log: str, limit: int) -> float:
    """Cut a log that is over its limit; returns for how long it cannot be over it again.

    The worker writes to the file itself, so that its output costs nothing and is there whatever dies; the supervisor
    looks now and then, and takes away what is too much. What follows the limit is not kept.
    """
    notice = f"\n[The log has reached its limit of {limit} bytes; further output is discarded.]\n".encode()
    try:
        size = os.stat(log).st_size
        if size > limit + len(notice):
            os.truncate(log, limit)
            with open(log, "ab") as file:
                file.write(notice)
    except OSError:
        return 5.0
    return min(5.0, max(0.25, (limit - size) / _LOG_RATE))


# -- what is written ----------------------------------------------------------------------------------------


def _reserve(folder: str, name: str) -> None:
    """Reserve the space for a file now: a full disk is a common end of a job, and must not hide how it ended."""
    descriptor = os.open(os.path.join(folder, f"{name}.tmp"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b" " * 4096)
    finally:
        os.close(descriptor)


def write_exit(folder: str, how: dict[str, Any]) -> bool:
    """Write down how the worker ended; False where that must be tried again (the disk is full)."""
    try:
        _write(folder, "exit.json", {**how, "ended": time.time()})
    except FileNotFoundError:
        return True  # the job has been deleted; nobody will ask
    except OSError:
        return False
    return True


def _write(folder: str, name: str, content: dict[str, Any], *, durably: bool = True) -> None:
    """Write a file so that it is there whole or not at all."""
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
