"""Estimates when waiting workloads are likely to start.

It simulates the policy in a thread and uses at most a tenth of the time, so neither plans nor requests wait for it. A
forecast belongs to the latest plan that it has seen. The likely range of a start is learned from actual starts
(`policy/accuracy.py`), from the beginning after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from scheduler.controller.loop import Loop
from scheduler.model import WorkloadId
from scheduler.policy import WARNED, Accuracy, Forecast, Range, Snapshot, rises_soon

PAUSE = 1.0
"""Seconds before a forecast: the plan is carried out first, and plans that follow at once are included."""

REST = 9.0
"""It rests for this many times the duration of a forecast."""

OVERDUE = 30.0
"""Seconds after which it forecasts again where an expected start has not happened."""

MakeForecast = Callable[[Snapshot], Forecast]
Publish = Callable[[Forecast], float | None]
"""Returns when another forecast is needed at the latest, if that is known."""


class Forecaster(Loop):
    """`publish` gets each forecast; `tell_error` gets the error of the first estimate of a start, in seconds."""

    def __init__(self, make_forecast: MakeForecast, publish: Publish, clock: Callable[[], float]) -> None:
        super().__init__("Looking ahead", delay=PAUSE, ratio=REST)
        self._make_forecast = make_forecast
        self._publish = publish
        self._clock = clock
        self.tell_error: Callable[[float], None] = lambda seconds: None
        self._latest: Snapshot | None = None
        self._accuracy = Accuracy()

    def look(self, snapshot: Snapshot) -> None:
        """A plan was made of this."""
        self._latest = snapshot
        self.wake()

    def started(self, workload: WorkloadId) -> None:
        """A waiting workload starts now."""
        now = self._clock()
        if told := self._accuracy.came(workload, now):
            self.tell_error(abs(now - told[0].start))

    def range(self, start: float) -> Range | None:
        """The earliest and the latest start that are likely, where `start` is the estimate."""
        return self._accuracy.range(self._clock(), start)

    async def _once(self) -> None:
        assert self._latest is not None
        snapshot = replace(self._latest, now=self._clock())
        forecast, waiting = await asyncio.to_thread(_look, self._make_forecast, snapshot)
        self._accuracy.keep(waiting)
        starts = {id: start for id, start in forecast.starts.items() if id in waiting}
        needed = self._publish(replace(forecast, ranges=self._accuracy.tell(snapshot.now, starts)))
        # When the first expected start should have happened, or owners must be warned of a rising guarantee.
        times = [start + OVERDUE for start in forecast.starts.values()]
        changes = [change.at - WARNED for project in snapshot.pool.projects for change in project.changes]
        times += [at for at in (*changes, needed) if at is not None and at > snapshot.now]
        self.wake_in(min(times) - snapshot.now if times else None)


def _look(make_forecast: MakeForecast, snapshot: Snapshot) -> tuple[Forecast, set[WorkloadId]]:
    """The forecast, and the waiting workloads."""
    waiting = {workload.id for workload in snapshot.workloads if not workload.running}
    wanted = waiting or rises_soon(snapshot.pool, snapshot.now)
    return make_forecast(snapshot) if wanted else Forecast(), waiting
