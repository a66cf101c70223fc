"""Looks ahead, behind the plans: when those that wait are likely to start.

It plays the policy forward in a thread and takes at most a tenth of the time, so a plan never waits for it and neither
does anybody who asks. What it finds belongs to the latest plan that it has seen. Within which range a start is likely
is learned from the starts that came (`policy/accuracy.py`), anew after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from scheduler.controller.loop import Loop
from scheduler.model import WorkloadId
from scheduler.policy import WARNED, Accuracy, Forecast, Range, Snapshot, rises_soon

PAUSE = 1.0
"""Seconds before a look ahead: a plan is carried out first, and those that follow it at once are seen with it."""

REST = 9.0
"""How many times as long as a look took it rests after it."""

OVERDUE = 30.0
"""Seconds after which it looks again where something foretold has not happened."""

MakeForecast = Callable[[Snapshot], Forecast]
Publish = Callable[[Forecast], None]


class Forecaster(Loop):
    """`publish` is given each forecast; `tell_error` by how many seconds the first estimate of a start was wrong."""

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
        """One that waited starts now."""
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
        self._publish(replace(forecast, ranges=self._accuracy.tell(snapshot.now, starts)))
        # When the first of what was foretold should have happened, or owners are to be warned of a guarantee.
        times = [start + OVERDUE for start in forecast.starts.values()]
        changes = [change.at - WARNED for project in snapshot.pool.projects for change in project.changes]
        times += [at for at in changes if at > snapshot.now]
        self.wake_in(min(times) - snapshot.now if times else None)


def _look(make_forecast: MakeForecast, snapshot: Snapshot) -> tuple[Forecast, frozenset[WorkloadId]]:
    """The forecast, and who waits."""
    waiting = frozenset([workload.id for workload in snapshot.workloads if not workload.running])
    wanted = waiting or rises_soon(snapshot.pool, snapshot.now)
    return make_forecast(snapshot) if wanted else Forecast(), waiting
