"""The stream of events: first those in the store, then new ones as they happen.

What must hold: a listener gets every event after the one it names, once and in order, however slow it is. The latest
events are in memory; a slower listener reads from the store.

A server of many listeners watches the feed once, for all of them. The prospects of a waiting job (its reason, position
and estimated start) belong to a plan and are not events: a watcher is only notified that there is a new plan.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol

from scheduler.store import EventRecord

KEPT = 10_000
"""The minimum number of events in memory."""


class Watcher(Protocol):
    def happened(self, events: Sequence[EventRecord]) -> None:
        """These events are durable."""

    def decided(self) -> None:
        """There is a new plan or forecast."""

    def ended(self) -> None:
        """The scheduler stops."""


class Feed:
    """`read` returns a page of stored events after an id; `last` is the id of the latest one."""

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
        """Also notify this watcher from now on."""
        self._watchers.append(watcher)

    def tell(self, events: Sequence[EventRecord]) -> None:
        """Publish durable events, in the order of their ids."""
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
        """There is a new plan or forecast."""
        for watcher in self._watchers:
            watcher.decided()

    def close(self) -> None:
        """End the stream of every listener."""
        self._closed = True
        self._wake()
        for watcher in self._watchers:
            watcher.ended()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def follow(self, after: int | None) -> AsyncGenerator[EventRecord, None]:
        """Events after the one with the id `after`; only new ones where it is `None`."""
        if after is None:
            return self._follow(self._told, self._begin + len(self._latest))
        return self._follow(after, self._find(after))

    async def _follow(self, last: int, at: int | None) -> AsyncGenerator[EventRecord, None]:
        while not self._closed:
            if at is None or at < self._begin:
                before, reached = last, self._reaches
                for event in await self._read(last):
                    if event.id > self._told:  # the store is ahead of the book, by which readers judge an event
                        break
                    yield event
                    last = event.id
                if last == before:  # there was none until then, as in a new store
                    last = max(last, reached)
                at = self._find(last)
            elif at < self._begin + len(self._latest):
                event = self._latest[at - self._begin]
                at += 1
                if event.id > last:  # otherwise the store had it already
                    last = event.id
                    yield event
            else:
                await self._news.wait()

    @property
    def _told(self) -> int:
        """The id of the latest published event."""
        return self._latest[-1].id if self._latest else self._reaches

    def _find(self, after: int) -> int | None:
        """The index of the first event after one; `None` where that is not in memory."""
        if after < self._reaches:
            return None
        return self._begin + bisect_right(self._latest, after, key=lambda event: event.id)
