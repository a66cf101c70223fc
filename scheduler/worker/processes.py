"""The processes of a worker, as the supervisor and the agent see them: standard library, Python 3.8 and later."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

LINUX = sys.platform == "linux"
COULD_NOT_START = 127
"""The exit status of a worker that could not be started."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_prctl = ctypes.CDLL(None).prctl if LINUX else None


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (Linux)."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """In a child between fork and exec: be killed when `parent` ends (Linux). Exits if it has ended already."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(COULD_NOT_START)


def signal_pipe() -> tuple[int, int]:
    """A pipe (its readable and writable descriptor) to which SIGTERM and SIGCHLD write their numbers."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return readable, writable


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


def exit_status(worker: int) -> int | None:
    """The worker's exit status once it has one; negative for a signal."""
    result = os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def reap_orphans(worker: int) -> list[int]:
    """Reap the worker's descendants that this process has adopted and that have ended; returns those still running."""
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
    except OSError:  # the kernel does not list them: look at all processes
        numbers = (int(name) for name in (os.listdir("/proc") if LINUX else ()) if name.isdigit())
        return [pid for pid in numbers if _parent(pid) == os.getpid()]


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b") ")[2].split()[1])
    except OSError:
        return None


def kill(worker: int, others: list[int]) -> None:
    """Kill the worker's group and the orphans. This process adopts their children: repeat it until none is left."""
    signal_group(worker, signal.SIGKILL)
    for pid in others:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def signal_group(worker: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # EPERM: all of them zombies, on macOS
        os.killpg(worker, number)


def how_it_ended(status: int, deadline: float | None, killed: bool) -> str:
    """The reason of an end where the exit status alone does not give it; often empty."""
    if killed:
        return "it was killed at the end of its grace period."
    if deadline is not None:
        return "it was stopped."
    if status == -signal.SIGKILL:
        return "it was killed by SIGKILL; perhaps the machine ran out of memory."
    return ""
