"""Processes that are not this one's children: learning of their end without asking again and again, and ending them.

A process is never signalled by its number alone: a pidfd, or its start time, makes sure that it is still the one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from scheduler.worker.supervisor import LINUX, identity

_ASK_AGAIN = 0.1


async def ended(pid: int, alive: Callable[[], bool]) -> None:
    """Wait until a process has ended. `alive` (which waits for the disk) says whether it lives under this number."""
    try:
        process = os.pidfd_open(pid) if LINUX else -1
    except OSError:
        process = -1  # it is gone, or its number means nothing here (another container's)
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
    """SIGTERM to a process, where it is still the one that `alive` speaks of; says whether it is."""
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
    """Kill what an unsupervised worker (as its `status.json` has it) left behind, and wait until it is gone.

    Its processes are those of its group, and those whose environment has all of `marks`.
    """
    pid = worker.get("pid")
    if isinstance(pid, int) and worker.get("identity") and identity(pid) == worker["identity"]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    wanted = {f"{name}={value}".encode() for name, value in marks.items()}
    end = time.monotonic() + patience
    while _kill_marked(wanted) and time.monotonic() < end:
        time.sleep(0.01)


def _kill_marked(wanted: set[bytes]) -> int:
    """Kill every process whose environment has all that is wanted; returns how many there were."""
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
