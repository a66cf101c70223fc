"""The forecast of demand against capacity: `/usage/forecast`."""

from __future__ import annotations

import asyncio

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.model import Environment
from scheduler.policy.demand import HOUR, WEEK, demand_by_hour, forecast, measured
from scheduler.schema import DemandForecast, ForecastHour

WEEKS = 12
"""The most weeks of history that count."""


class ForecastHandler(ApiHandler):
    @endpoint(
        "The forecast of the GPUs that jobs will hold or wait for, by the hour for a week, and its error last week",
        Scope.ADMIN,
        answer=DemandForecast,
    )
    async def get(self) -> None:
        now = self.api.clock()
        until = int(now // HOUR) * HOUR
        jobs = await self.api.controller.demanded(until - WEEKS * WEEK * HOUR, until)
        self.answer(await asyncio.to_thread(self._forecast, jobs, until, now))

    def _forecast(self, jobs: list[tuple[float, float | None, int]], until: int, now: float) -> DemandForecast:
        since = until - WEEKS * WEEK * HOUR
        if jobs:
            since = max(since, int(min(job[0] for job in jobs) // HOUR + 1) * HOUR)
        hours = max(0, until - since) // HOUR if jobs else 0
        spans = [(submitted, now if ended is None else ended, gpus) for submitted, ended, gpus in jobs]
        history = demand_by_hour(spans, since, hours)
        told, error = forecast(history), measured(history)
        return DemandForecast(
            capacity=self._capacity(),
            start=until,
            history=[round(demand, 3) for demand in history[-WEEK:]],
            hours=[ForecastHour(low=each.low, median=each.median, high=each.high) for each in told],
            weeks=hours // WEEK,
            mean_absolute_error=None if error is None else error.mean_absolute,
            within_range=None if error is None else error.within,
        )

    def _capacity(self) -> int:
        pools = self.api.book.pool.node_pools
        train = {pool.name for pool in pools if pool.environment is Environment.TRAIN}
        return sum(node.gpus for node in self.api.book.nodes if node.node_pool in train and node.schedulable)
