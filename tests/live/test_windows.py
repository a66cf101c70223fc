"""Guarantees that change by calendar, through the running service, with clocks set by the test."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from scheduler.model import Node, NodeName
from tests.live.conftest import Live, Open

BERLIN = "Europe/Berlin"
FRIDAY = datetime(2026, 12, 4, 8, 0, tzinfo=ZoneInfo(BERLIN)).timestamp()
HOUR = 3600.0
EVERYBODY = {"members": ["*"]}
CLASS = {"days": "mon-fri", "from": "09:00", "to": "12:00", "timezone": BERLIN, "guaranteed": 3}


class Clock:
    """A running clock that starts at an instant and can be set forward."""

    def __init__(self, at: float) -> None:
        self._ahead = at - time.time()

    def __call__(self) -> float:
        return time.time() + self._ahead

    def set(self, at: float) -> None:
        self._ahead = at - time.time()


async def opened(open_pool: Open, clock: Clock, **window: Any) -> Live:
    projects = [
        {"name": "lab", **EVERYBODY},
        {"name": "class", "weight": 0, "windows": [{**CLASS, **window}], **EVERYBODY},
    ]
    node = Node(NodeName("n1"), gpus=4)
    train = [{"name": "train", "environment": "train"}]
    return await open_pool(node, clock=clock, node_pools=train, projects=projects)


async def guaranteed(live: Live) -> float:
    await live.bench.settled()
    return float((await live.get("projects/class"))["guaranteed_now"])


async def test_a_window_guarantees_gpus_from_its_start_to_its_end(open_pool: Open) -> None:
    clock = Clock(FRIDAY)
    live = await opened(open_pool, clock, **{"from": "09:00", "to": "12:00", "timezone": BERLIN, "guaranteed": 3})
    lab = await live.submit_all(*[{"project": "lab"}] * 4)
    students = await live.submit_all(*[{"project": "class"}] * 4)
    assert await live.runs(*lab, *students) == lab
    view = await live.get("projects/class")  # whose windows change `guaranteed_now`
    assert (view["guaranteed"], view["guaranteed_now"], view["changes"][:2]) == (
        0,
        0,
        [{"at": FRIDAY + HOUR, "guaranteed": 3}, {"at": FRIDAY + 4 * HOUR, "guaranteed": 0}],
    )
    told = (await live.get(f"jobs/{students[0]}/explain"))["would_help"]
    assert told[0] == "The guarantee of project class rises to 3 GPUs at 09:00."
    clock.set(FRIDAY + HOUR)
    assert len(await live.runs(*lab)) == 1
    assert await live.runs(*students) == students[:3]
    assert (await live.get("projects/class"))["guaranteed_in_all"] == 3
    clock.set(FRIDAY + 4 * HOUR)
    assert await guaranteed(live) == 0


async def test_days_and_dates_say_when(open_pool: Open) -> None:
    """`days`, `first` and `last` refer to the begin of a window; this one continues past midnight."""
    clock, day = Clock(FRIDAY), 24 * HOUR
    window = {"days": "fri", "first": "2026-12-04", "last": "2026-12-11", "from": "22:00", "to": "06:00"}
    live = await opened(open_pool, clock, **window)
    expected = {-day: 0, 0: 0, 14 * HOUR: 3, 21 * HOUR: 3, 22 * HOUR: 0, 38 * HOUR: 0, 7 * day + 14 * HOUR: 3}
    for later, amount in {**expected, 14 * day + 14 * HOUR: 0}.items():
        clock.set(FRIDAY + later)
        assert await guaranteed(live) == amount, later


async def test_the_service_wakes_when_a_window_begins(open_pool: Open) -> None:
    clock = Clock(FRIDAY)
    live = await opened(open_pool, clock)
    lab = await live.submit_all(*[{"project": "lab"}] * 4)
    (student,) = await live.submit_all({"project": "class"})
    assert await live.runs(*lab, student) == lab
    events = live.bench.controller.events()
    told = asyncio.ensure_future(anext(events))
    clock.set(FRIDAY + HOUR - 0.5)
    (waiting,) = await live.submit_all({"project": "lab"})  # its plan sets the alarm again
    async with asyncio.timeout(30):
        while (event := await told).subject != student or (event.data or {})["state"] != "running":
            told = asyncio.ensure_future(anext(events))
    await events.aclose()
    assert await live.runs(waiting) == []
