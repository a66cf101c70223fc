"""Submits the jobs of schedules that are due, with the rights that their owners have then.

The decision is `controller.duetimes`; here are the clock, the owners and the way of a submission.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.api.submitting import job_of_schedule
from scheduler.controller.duetimes import after_run, is_due, paused, skip_for, skipped
from scheduler.errors import Conflict, Forbidden, Invalid, TooMany, Unavailable
from scheduler.model import Schedule

if TYPE_CHECKING:
    from scheduler.api.context import Context

log = logging.getLogger(__name__)

LOOK = 5.0
"""Seconds between two looks, and by which a run may be late."""


class Schedules:
    """Runs beside the service."""

    def __init__(self, api: Context) -> None:
        self._api = api

    async def forever(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK)

    async def look(self) -> None:
        """Run, skip or pause the schedules that are due now; what cannot be done now is tried again."""
        for schedule in list(self._api.controller.schedules.all.values()):
            if is_due(schedule, self._api.clock()):
                try:
                    await self._act(schedule)
                except Conflict:
                    log.debug("Schedule %s is being changed; looking again.", schedule.id)
                except Exception:
                    log.exception("Schedule %s could not be run; trying again.", schedule.id)

    async def _act(self, schedule: Schedule) -> None:
        schedules, now = self._api.controller.schedules, self._api.clock()
        last = await self._api.controller.job(schedule.last_job) if schedule.last_job is not None else None
        if (why := skip_for(last)) is not None:
            await schedules.change(schedule, skipped(schedule, now, why))
            return
        try:
            await self._run(schedule, now)
        except Forbidden as error:
            await schedules.change(schedule, paused(schedule, now, f"Paused by the scheduler: {error.sentence}"))
        except (Invalid, TooMany) as error:  # the pool may be different at its next time
            await schedules.change(schedule, skipped(schedule, now, error.sentence))
        except Unavailable as error:
            await schedules.change(schedule, replace(schedule, notice=f"The run has to wait: {error.sentence}"))

    async def _run(self, schedule: Schedule, now: float) -> None:
        owner = await self._api.authenticator.user(schedule.user)
        if owner is None:
            raise Forbidden(f"There is no user {schedule.user} any more.")
        job = job_of_schedule(self._api, owner, schedule)
        after = replace(after_run(schedule, now), last_job=job.id)
        await self._api.controller.schedules.run(schedule, after, job)
