"""The threads for blocking work.

All are started at once. Python's executor starts them on demand, and where the system has no more threads it raises an
error but still does the work later: a plan would be made twice.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from scheduler.errors import shortage

MOST = 32


def start_threads() -> None:
    """For `asyncio.to_thread` in this event loop. Raises `Unavailable` where the system has too few."""
    count = min(MOST, (os.cpu_count() or 1) + 4)  # as many as Python's own executor
    executor = ThreadPoolExecutor(count, "blocking")
    started = threading.Barrier(count + 1)
    try:
        for _ in range(count):
            executor.submit(started.wait)
        started.wait()
    except RuntimeError as error:
        started.abort()
        executor.shutdown()
        raise shortage(error) or error from None
    asyncio.get_running_loop().set_default_executor(executor)
