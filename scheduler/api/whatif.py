"""What-if simulations, and the record of jobs that they simulate: `/usage/what-if`, `/usage/record`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.api.usage import LAST
from scheduler.errors import Conflict, Invalid
from scheduler.scenario.record import record_of
from scheduler.schema import WhatIfAsk, WhatIfReport

DAY = 86_400
USUAL = 30 * DAY

MOST = 20_000
"""The most jobs that are simulated."""


class RecordQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    since: float | None = Field(None, ge=0, lt=LAST, description="default: 30 days before `until`")
    until: float | None = Field(None, ge=0, lt=LAST, description="default: now, and never later")


class RecordBase(ApiHandler):
    async def record(self, since: float | None, until: float | None) -> str:
        """The record as JSON. Raises `Invalid` for an empty span, and for one with too many jobs."""
        now = self.api.clock()
        until = now if until is None else min(until, now)
        since = max(0.0, until - USUAL) if since is None else since
        if since >= until:
            raise Invalid("since: the span ends before it begins; give a `since` before `until`.", field="since")
        jobs = await self.api.controller.recorded(since, until, MOST + 1)
        if len(jobs) > MOST:
            raise Invalid(f"since: more than {MOST:,} jobs ran in this span; give a shorter one.", field="since")
        snapshot, pool = self.api.controller.snapshot(), self.api.book.pool
        return await asyncio.to_thread(lambda: json.dumps(record_of(snapshot, pool, jobs, since, until)))


class RecordHandler(RecordBase):
    @endpoint(
        "The pool and the jobs that ran in a span of time, as `jupyter runai simulate --recorded` reads them",
        Scope.ADMIN,
        query=RecordQuery,
    )
    async def get(self) -> None:
        query = self.query(RecordQuery)
        text = await self.record(query.since, query.until)
        self.set_header("Content-Type", "application/json")
        self.finish(text)


class WhatIfHandler(RecordBase):
    """A simulation ends when its reader is gone."""

    _simulating: asyncio.Task[dict[str, Any]] | None = None

    @endpoint(
        "Simulate the recorded jobs on the pool as it is and on a changed one: more GPUs, other guarantees",
        Scope.ADMIN,
        body=WhatIfAsk,
        answer=WhatIfReport,
        refuses=(Invalid, Conflict),
    )
    async def post(self) -> None:
        asked = self.body(WhatIfAsk)
        record = await self.record(asked.since, asked.until)
        change = {"gpus": asked.gpus, "guaranteed": asked.guaranteed}
        self._simulating = asyncio.ensure_future(self.api.simulations.run(record, change))
        try:
            found = await self._simulating
        except asyncio.CancelledError:
            return
        self.answer(WhatIfReport.model_validate(found))

    def on_connection_close(self) -> None:
        if self._simulating is not None:
            self._simulating.cancel()
