"""Listeners get every event after the one they name, once and in order, however slow they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from scheduler.controller.feed import Feed
from scheduler.store import EventRecord


class Kept:
    """What the store has, a page at a time."""

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


async def test_what_was_is_read_and_what_comes_is_told() -> None:
    kept = Kept(8)
    feed = Feed(kept.read, last=8)
    listener = feed.follow(2)
    assert await take(listener, 6) == [3, 4, 5, 6, 7, 8]
    feed.tell([event(9), event(10)])
    assert await take(listener, 2) == [9, 10]


async def test_without_an_id_it_begins_now() -> None:
    """That is when it is asked for, not when it is first read."""
    kept = Kept(8)
    feed = Feed(kept.read, last=8)
    feed.tell([event(9)])
    listener = feed.follow(None)
    feed.tell([event(10)])
    assert await take(listener, 1) == [10]


async def test_who_watches_is_told_once_of_each_event_of_plans_and_of_the_end() -> None:
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


async def test_what_is_in_the_store_before_it_is_told_comes_once() -> None:
    """After a restart a listener reads on in the store, which is ahead of what has been told by a moment."""
    kept = Kept(3)
    feed = Feed(kept.read, last=2)
    listener = feed.follow(1)
    assert await take(listener, 2) == [2, 3]
    more = asyncio.ensure_future(take(listener, 2))
    for _ in range(3):
        await asyncio.sleep(0)
    feed.tell([event(3), event(4), event(5)])
    assert await more == [4, 5]


async def test_an_end_comes_to_every_listener() -> None:
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
