"""Listeners get every event after the given one, once and in order, however slow they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from scheduler.controller.feed import Feed
from scheduler.store import EventRecord


class Kept:
    """The store's events, a page at a time."""

    def __init__(self, count: int) -> None:
        self.events = [event(n) for n in range(1, count + 1)]

    async def read(self, after: int) -> list[EventRecord]:
        await asyncio.sleep(0)
        return [e for e in self.events if e.id > after][:3]


def event(number: int) -> EventRecord:
    return EventRecord(1.0, "job.state", "j", id=number)


async def take(listener: AsyncGenerator[EventRecord, None], count: int) -> list[int]:
    async with asyncio.timeout(5):
        return [(await anext(listener)).id for _ in range(count)]


async def test_past_events_are_read_and_new_ones_follow() -> None:
    kept = Kept(8)
    feed = Feed(kept.read, last=8)
    listener = feed.follow(2)
    assert await take(listener, 6) == [3, 4, 5, 6, 7, 8]
    feed.tell([event(9), event(10)])
    assert await take(listener, 2) == [9, 10]


async def test_a_new_store_is_read_once_by_a_listener_from_its_beginning() -> None:
    """Its first event has a large number, and none is there yet."""
    pages: list[int] = []

    async def read(after: int) -> list[EventRecord]:
        pages.append(after)
        await asyncio.sleep(0)
        return []

    feed = Feed(read, last=1000)
    first = asyncio.ensure_future(take(feed.follow(0), 1))
    for _ in range(20):
        await asyncio.sleep(0)
    feed.tell([event(1001)])
    assert await first == [1001]
    assert pages == [0]


async def test_without_an_id_only_new_events_come() -> None:
    """It starts when requested, not when first read."""
    kept = Kept(8)
    feed = Feed(kept.read, last=8)
    feed.tell([event(9)])
    listener = feed.follow(None)
    feed.tell([event(10)])
    assert await take(listener, 1) == [10]


async def test_a_watcher_is_notified_once_of_each_event_plan_and_the_end() -> None:
    told: list[object] = []

    class Watching:
        def happened(self, events: Sequence[EventRecord]) -> None:
            told.append([event.id for event in events])

        def decided(self) -> None:
            told.append("plan")

        def ended(self) -> None:
            told.append("end")

    feed = Feed(Kept(1).read, last=1)
    feed.watch(Watching())
    feed.tell([event(2), event(3)])
    feed.tell_of_plan()
    feed.tell([event(4)])
    feed.close()
    assert told == [[2, 3], "plan", [4], "end"]


async def test_an_event_in_the_store_comes_once_and_not_before_it_is_published() -> None:
    """A commit is in the store slightly before the book has it: whoever then read the book would see the past."""
    kept = Kept(3)
    feed = Feed(kept.read, last=2)
    listener = feed.follow(1)
    assert await take(listener, 1) == [2]
    more = asyncio.ensure_future(take(listener, 3))
    for _ in range(9):
        await asyncio.sleep(0)
    assert not more.done()
    feed.tell([event(3), event(4), event(5)])
    assert await more == [3, 4, 5]


async def test_every_stream_ends_with_the_feed() -> None:
    feed = Feed(Kept(0).read, last=0)
    listening = asyncio.ensure_future(anext(feed.follow(0)))
    await asyncio.sleep(0)
    feed.close()
    with pytest.raises(StopAsyncIteration):
        await listening


@given(
    steps=st.lists(
        st.one_of(st.tuples(st.just("tell"), st.integers(1, 9)), st.tuples(st.just("read"), st.integers(1, 9)))
    ),
    after=st.integers(0, 12),
)
@settings(deadline=None)
def test_nothing_is_missed_or_repeated(steps: list[tuple[str, int]], after: int) -> None:
    """With a memory of four events, so that slow listeners fall behind it all the time."""

    async def play() -> None:
        kept = Kept(12)
        feed = Feed(kept.read, last=12, kept=4)
        listener, heard = feed.follow(after), list[int]()
        for step, count in steps:
            if step == "tell":
                told = [event(len(kept.events) + n) for n in range(1, count + 1)]
                kept.events += told
                feed.tell(told)
            else:
                left = len(kept.events) - (heard[-1] if heard else after)
                heard += await take(listener, min(count, left))
        left = len(kept.events) - (heard[-1] if heard else after)
        heard += await take(listener, left)
        assert heard == list(range(after + 1, len(kept.events) + 1))

    asyncio.run(play())
