"""Garbage is collected between requests, and never while somebody makes many objects."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from scheduler.controller.loop import Loop
from scheduler.service import garbage


class Circle:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
async def collections(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """The generations that were collected, while an event loop collects each time that others come in between."""
    monkeypatch.setattr(garbage, "EVERY", 0)
    found: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop":
            found.append(info["generation"])

    gc.callbacks.append(note)
    collecting = asyncio.create_task(garbage.collect_garbage())
    await asyncio.sleep(0)
    yield found
    collecting.cancel()
    with suppress(asyncio.CancelledError):
        await collecting
    gc.callbacks.remove(note)


def a_circle_and(objects: int) -> tuple[asyncio.Event, list[list[int]]]:
    """What is set when a circle is gone, and so many objects."""
    gone, circle = asyncio.Event(), Circle()
    weakref.finalize(circle, gone.set)
    return gone, [[number] for number in range(objects)]


async def test_what_is_young_is_collected_in_the_event_loop_alone(collections: list[int]) -> None:
    gone, _ = a_circle_and(garbage.FEW)
    assert not gc.isenabled()
    async with asyncio.timeout(30):
        await gone.wait()
    assert 0 in collections


async def test_what_a_plan_makes_is_waited_for(collections: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loop, "at_work", 1)
    gone, made = a_circle_and(2 * garbage.MANY)
    collections.clear()
    for _ in range(garbage.PATIENCE // 2):
        await asyncio.sleep(0)
    assert not collections
    made.clear()
    _ = [[number] for number in range(garbage.FEW)]
    async with asyncio.timeout(30):
        await gone.wait()


async def test_other_objects_are_not_waited_for_however_many(collections: list[int]) -> None:
    gone, _ = a_circle_and(2 * garbage.MANY)
    async with asyncio.timeout(30):
        await gone.wait()


async def test_the_state_of_a_large_pool_is_looked_through_once(
    collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "LARGE", garbage.MANY)
    before = gc.get_freeze_count()
    gone, made = a_circle_and(2 * garbage.MANY)
    async with asyncio.timeout(30):
        await gone.wait()
    assert gc.get_freeze_count() - before > len(made)
    gc.unfreeze()


def test_now_and_then_all_generations_are_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "STAYS", 0)
    before = gc.get_freeze_count()
    garbage.collect(garbage.OLD)
    assert gc.get_freeze_count() > before
    garbage.collect(garbage.NEVER_SURE + 1)
    assert gc.get_freeze_count() > before
    monkeypatch.setattr(garbage, "STAYS", 10**9)
    garbage.collect(garbage.NEVER_SURE)
    assert gc.get_freeze_count() == 0
