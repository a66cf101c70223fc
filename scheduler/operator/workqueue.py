"""A work queue: one key is processed at a time, and again if it failed or changed meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from scheduler.engines.kubernetes.api import ApiError
from scheduler.errors import RunaiError

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

WORKERS = 8
SHORTEST, LONGEST = 0.1, 30.0
"""Seconds until a failed key is retried."""


class WorkQueue(Generic[K]):
    """Each key is queued at most once and never processed concurrently."""

    def __init__(self, work: Callable[[K], Awaitable[None]]) -> None:
        self._work = work
        self._queue: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._failures: Counter[K] = Counter()
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        self._tasks = [asyncio.create_task(self._forever()) for _ in range(WORKERS)]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def add(self, key: K) -> None:
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    def add_later(self, key: K, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def _forever(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            self._running.add(key)
            try:
                await self._work(key)
                del self._failures[key]
            except Exception as error:
                self._failed(key, error)
            self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    def _failed(self, key: K, error: Exception) -> None:
        """Retry a failed key. A conflict is no failure: the resource has changed and is processed again."""
        if not (isinstance(error, ApiError) and error.status == 409):
            known = isinstance(error, ApiError | RunaiError)
            log.warning("%s could not be looked after: %s", key, error, exc_info=None if known else error)
        self.add_later(key, min(LONGEST, SHORTEST * 2 ** self._failures[key]))
        self._failures[key] += 1
