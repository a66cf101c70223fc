"""Processes that are not children of this one: waiting for their end without polling, and ending them.

A process is never signalled by its pid alone: a pidfd or its start time identifies it. A recorded pid is not trusted
either: a lock that the process holds, or its environment, proves that it is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scheduler.worker.processes import LINUX
from scheduler.worker.supervisor import identity

_ASK_AGAIN = 0.1
_NO_PROCESS = 2**31


def holder(lock: Path, first: int = 0) -> int:
    """The pid of the process that holds a lock on a file, with `first` checked first; 0 if unknown."""
    if holds(first, lock):
        return first
    try:
        inode = str(lock.stat().st_ino)
        with open("/proc/locks") as file:
            locks = [line.split() for line in file]
    except OSError:
        return 0
    # `8: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`; its device may differ from that of `stat`
    pids = [int(each[4]) for each in locks if each[1:2] == ["FLOCK"] and each[5].rpartition(":")[2] == inode]
    return next((pid for pid in pids if holds(pid, lock)), 0)


def holds(pid: int, lock: Path) -> bool:
    """Whether a process has a file open. Without /proc (not Linux), true for any process of this user."""
    if pid <= 1:
        return False
    if not LINUX:
        return identity(pid) is not None
    with contextlib.suppress(OSError):
        wanted = lock.stat()
        for each in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{each}"), wanted):
                    return True
    return False


async def ended(pid: int, alive: Callable[[], bool]) -> None:
    """Wait until a process has ended. `alive` (which reads the disk) says whether the pid is still that process.

    If `pid` is 0, only `alive` is used.
    """
    try:
        process = os.pidfd_open(pid) if LINUX and pid else -1
    except OSError:
        process = -1  # it is gone, or its pid is of another container's namespace
    if process >= 0:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        loop.add_reader(process, done.set)
        try:
            if await asyncio.to_thread(alive):
                await done.wait()
        finally:
            loop.remove_reader(process)
            os.close(process)
    pause = 0.005
    while await asyncio.to_thread(alive):
        await asyncio.sleep(pause)
        pause = min(2 * pause, _ASK_AGAIN)


def terminate(pid: int, alive: Callable[[], bool]) -> bool:
    """Send SIGTERM to a process if `alive` confirms its identity; returns whether it does."""
    if not LINUX:
        if not alive():
            return False
        os.kill(pid, signal.SIGTERM)
        return True
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not alive():
            return False
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True


def clear(worker: Mapping[str, Any], marks: Mapping[str, str], patience: float = 10.0) -> None:
    """Kill what an unsupervised worker (described by its `status.json`) left behind, and wait until it is gone.

    These are the processes of its group, and those whose environment has all of `marks`.
    """
    wanted = {f"{name}={value}".encode() for name, value in marks.items()}
    pid = worker.get("pid")
    if type(pid) is int and 1 < pid < _NO_PROCESS and identity(pid) == worker.get("identity") is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if not LINUX or _is_marked(pid, wanted):
                os.killpg(pid, signal.SIGKILL)
    end = time.monotonic() + patience
    while _kill_marked(wanted) and time.monotonic() < end:
        time.sleep(0.01)


def _kill_marked(wanted: set[bytes]) -> int:
    """Kill every process whose environment has all of `wanted`; returns how many there were."""
    found = 0
    for name in os.listdir("/proc") if LINUX else ():
        if name.isdigit() and _is_marked(int(name), wanted):
            found += 1
            with contextlib.suppress(OSError):
                process = os.pidfd_open(int(name))
                try:
                    if _is_marked(int(name), wanted):
                        signal.pidfd_send_signal(process, signal.SIGKILL)
                finally:
                    os.close(process)
    return found


def _is_marked(pid: int, wanted: set[bytes]) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return wanted.issubset(environ.read().split(b"\0"))
    except OSError:
        return False
