"""Looks ahead, behind the plans: when those that wait are likely to start.

It plays the policy forward in a thread and takes at most a tenth of the time, so a plan never waits for it and neither does
anybody who asks. What it finds belongs to the latest plan that it has seen; whoever waits is told where that has moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from scheduler.controller.loop import Loop
from scheduler.policy import Forecast, Snapshot

PAUSE = 1.0
"""Seconds before a look ahead: a plan is carried out first, and those that follow it at once are seen with it."""

REST = 9.0
"""How many times as long as a look took it rests after it."""

OVERDUE = 30.0
"""Seconds after which it looks again where something foretold has not happened, or has moved so far."""

PART = 0.1
"""An estimate has moved, too, when it is off by this part of the time that is left."""

TELL = 200
"""So many jobs are told of a new estimate at once, those that start first before the others."""

Foresee = Callable[[Snapshot], Forecast]
Publish = Callable[[Forecast, list[str]], None]


class Forecaster(Loop):
    """`publish` is given the forecast and the jobs whose estimate has moved since they were told."""

    def __init__(self, foresee: Foresee, publish: Publish, clock: Callable[[], float]) -> None:
        super().__init__("Looking ahead", delay=PAUSE, ratio=REST)
        self._foresee = foresee
        self._publish = publish
        self._clock = clock
        self._latest: Snapshot | None = None
        self._told: Mapping[str, float] = {}

    def look(self, snapshot: Snapshot) -> None:
        """A plan was made of this."""
        self._latest = snapshot
        self.wake()

    async def _once(self) -> None:
        assert self._latest is not None
        snapshot = replace(self._latest, now=self._clock())
        forecast, told, moved = await asyncio.to_thread(_look, self._foresee, snapshot, self._told)
        self._told = told
        self._publish(forecast, moved)
        if forecast.starts:  # when the first of what was foretold should have happened
            self.wake_in(min(forecast.starts.values()) - snapshot.now + OVERDUE)
        else:
            self.wake_in(None)
        if len(moved) == TELL:
            self.wake()


def _look(
    foresee: Foresee, snapshot: Snapshot, told: Mapping[str, float]
) -> tuple[Forecast, Mapping[str, float], list[str]]:
    """The forecast, what those that wait have been told with it, and who of them is to be told."""
    waiting = [workload.id for workload in snapshot.workloads if not workload.running]
    known = any(workload.request.expected_runtime is not None for workload in snapshot.workloads)
    forecast = foresee(snapshot) if waiting and known else Forecast()
    starts = forecast.starts
    moved = [id for id in waiting if _has_moved(told.get(id), starts.get(id), snapshot.now)]
    moved = sorted(moved, key=lambda id: starts.get(id, float("inf")))[:TELL]
    now_told = {id: told[id] for id in waiting if id in told}
    for id in moved:
        if id in starts:
            now_told[id] = starts[id]
        else:
            del now_told[id]
    return forecast, now_told, moved


def _has_moved(told: float | None, start: float | None, now: float) -> bool:
    if told is None or start is None:
        return told is not start
    return abs(start - told) > max(OVERDUE, PART * (start - now))
