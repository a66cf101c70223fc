"""What happened, told to everybody who listens: first what the store has kept, then as it happens.

What must hold: a listener gets every event after the one it names, once and in order, however slow it is. The latest
events are in memory; whoever falls behind them reads on in the store.

Whoever serves many listeners watches the feed once, for all of them. What a job that waits may expect (its reason, its
place in line, its estimated start) belongs to a plan and is no event: a watcher is only told that there is another
plan.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol

from scheduler.store import EventRecord

KEPT = 10_000
"""How many of the latest events are in memory, at least."""


class Watcher(Protocol):
    def happened(self, events: Sequence[EventRecord]) -> None:
        """These events are durable."""

    def decided(self) -> None:
        """There is a new plan or a new forecast."""

    def ended(self) -> None:
        """Nothing more will happen: the scheduler stops."""


class Feed:
    """`read` gives a page of kept events after an id; `last` is the id of the latest there is."""

    def __init__(self, read: Callable[[int], Awaitable[list[EventRecord]]], last: int, kept: int = KEPT) -> None:
        self._read = read
        self._kept = kept
        self._latest: list[EventRecord] = []
        self._begin = 0  # how many events were told before the first of `_latest`
        self._reaches = last  # every durable event after this one is in `_latest`
        self._news = asyncio.Event()
        self._closed = False
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> None:
        """Tell this watcher, too, from now on."""
        self._watchers.append(watcher)

    def tell(self, events: Sequence[EventRecord]) -> None:
        """Durable events, in the order of their ids."""
        self._latest.extend(events)
        if len(self._latest) > 2 * self._kept:
            dropped = len(self._latest) - self._kept
            self._reaches = self._latest[dropped - 1].id
            self._begin += dropped
            del self._latest[:dropped]
        self._wake()
        for watcher in self._watchers:
            watcher.happened(events)

    def tell_of_plan(self) -> None:
        """There is a new plan or a new forecast."""
        for watcher in self._watchers:
            watcher.decided()

    def close(self) -> None:
        """Every listener comes to its end."""
        self._closed = True
        self._wake()
        for watcher in self._watchers:
            watcher.ended()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def follow(self, after: int | None) -> AsyncGenerator[EventRecord, None]:
        """Events after the one with the id `after`; from now on where it is `None`."""
        if after is None:
            latest = self._latest[-1].id if self._latest else self._reaches
            return self._follow(latest, self._begin + len(self._latest))
        return self._follow(after, self._find(after))

    async def _follow(self, last: int, at: int | None) -> AsyncGenerator[EventRecord, None]:
        while not self._closed:
            if at is None or at < self._begin:
                for event in await self._read(last):
                    yield event
                    last = event.id
                at = self._find(last)
            elif at < self._begin + len(self._latest):
                event = self._latest[at - self._begin]
                at += 1
                if event.id > last:  # else it was in the store before it was told here
                    last = event.id
                    yield event
            else:
                await self._news.wait()

    def _find(self, after: int) -> int | None:
        """The place of the first event after one; `None` where that is no longer (or was never) in memory."""
        if after < self._reaches:
            return None
        return self._begin + bisect_right(self._latest, after, key=lambda event: event.id)
