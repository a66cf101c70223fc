"""Garbage is collected between requests, and never while many objects are being created."""

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
    """Part of a reference cycle, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
async def collections(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """The collected generations, while an event loop collects between other callbacks."""
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
    """An event set when a reference cycle is freed, and this many objects."""
    gone, circle = asyncio.Event(), Circle()
    weakref.finalize(circle, gone.set)
    return gone, [[number] for number in range(objects)]


async def test_young_objects_are_collected_only_in_the_event_loop(collections: list[int]) -> None:
    gone, _ = a_circle_and(garbage.FEW)
    assert not gc.isenabled()
    async with asyncio.timeout(30):
        await gone.wait()
    assert 0 in collections


async def test_collection_waits_for_the_objects_of_a_plan(
    collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loop, "at_work", 1)
    gone, made = a_circle_and(2 * garbage.FEW)
    collections.clear()
    for _ in range(garbage.PATIENCE // 2):
        await asyncio.sleep(0)
    assert not collections
    made.clear()
    _ = [[number] for number in range(garbage.FEW)]
    monkeypatch.setattr(Loop, "at_work", 0)
    async with asyncio.timeout(30):
        await gone.wait()


async def test_collection_does_not_wait_for_other_objects(collections: list[int]) -> None:
    gone, _ = a_circle_and(2 * garbage.FEW)
    async with asyncio.timeout(30):
        await gone.wait()


async def test_the_state_of_a_large_pool_is_scanned_once(
    collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "LARGE", garbage.FEW)
    before = gc.get_freeze_count()
    gone, made = a_circle_and(2 * garbage.FEW)
    async with asyncio.timeout(30):
        await gone.wait()
    assert gc.get_freeze_count() - before > len(made)
    gc.unfreeze()


def test_all_generations_are_scanned_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "STAYS", 0)
    before = gc.get_freeze_count()
    garbage.collect(garbage.OLD)
    assert gc.get_freeze_count() > before
    garbage.collect(garbage.NEVER_SURE + 1)
    assert gc.get_freeze_count() > before
    monkeypatch.setattr(garbage, "STAYS", 10**9)
    garbage.collect(garbage.NEVER_SURE)
    assert gc.get_freeze_count() == 0
