"""The use of the pool and its queue over time: `/pool/history`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.api.usage import LAST
from scheduler.errors import Invalid
from scheduler.schema import PoolHistory, PoolPoint
from scheduler.store import PoolRecord
from scheduler.store.poolhistory import LEVELS

USUAL = 3600.0
"""The length of a history whose start is not given, in seconds."""

MOST = 1000
"""The most points of an answer."""

STEPS = (60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400)
"""The lengths of periods, in seconds. Each is a multiple of the ones before."""


class PoolHistoryQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    since: float | None = Field(None, ge=0, lt=LAST, description="default: an hour before `until`")
    until: float | None = Field(None, ge=0, lt=LAST, description="default: now")
    points: int = Field(100, ge=1, le=MOST, description="about how many points the answer has at most")


class PoolHistoryHandler(ApiHandler):
    @endpoint(
        "Allocated, used and idle GPUs, the length of the queue and its waits over time, for up to 13 months",
        Scope.ADMIN,
        query=PoolHistoryQuery,
        answer=PoolHistory,
    )
    async def get(self) -> None:
        query, now = self.query(PoolHistoryQuery), self.api.clock()
        until = now if query.until is None else query.until
        since = max(0.0, until - USUAL) if query.since is None else query.since
        if since >= until:
            raise Invalid("since: the span ends before it begins; give a `since` before `until`.", field="since")
        step = step_for(since, until, now, query.points)
        found = await self.api.controller.pool_history(since, until, step)
        self.answer(PoolHistory(since=since, until=until, step=step, points=list(map(_point, found))))


def step_for(since: float, until: float, now: float, points: int) -> int:
    """The shortest period that is recorded for the whole span, and of which it has not too many."""
    recorded = next((length for length, kept in LEVELS if since >= now - kept), LEVELS[-1][0])
    fitting = (step for step in STEPS if step >= recorded and (until - since) // step <= points)
    return next(fitting, STEPS[-1])


def _point(record: PoolRecord) -> PoolPoint:
    used = record.used

    def mean(amount: float | None) -> float | None:
        return None if amount is None or not used.observed else round(amount / used.observed, 3)

    return PoolPoint(
        start=record.start,
        allocated=mean(used.held),
        used=mean(used.measured - used.idle) if used.measured else None,
        idle=mean(used.idle) if used.measured else None,
        queued=mean(used.queued),
        starts=used.starts,
        mean_wait=round(used.wait / used.starts, 3) if used.starts else None,
        longest_wait=used.longest_wait,
    )
