"""Schedules of users: kept, changed and deleted, each change durable when it returns.

What must hold, over a `kill -9` at any instant: a run of a schedule and the time of its next one become durable in the
same transaction, so a run is neither lost nor submitted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.controller import notices
from scheduler.controller.statewriter import StateWriter
from scheduler.controller.submissions import Submissions
from scheduler.errors import Conflict, TooMany
from scheduler.model import Job, Schedule, ScheduleId, UserName
from scheduler.store import ChangeSet

MOST = 50
"""The most schedules of one user."""


class Schedules:
    """The schedules of all users."""

    def __init__(self, writer: StateWriter, submissions: Submissions, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._submissions = submissions
        self._clock = clock

    @property
    def all(self) -> Mapping[ScheduleId, Schedule]:
        return self._writer.book.schedules

    async def add(self, schedule: Schedule) -> None:
        """Raises `TooMany` where its user has too many, `Conflict` where they have one of its name."""
        others = self._of(schedule.user)
        if len(others) >= MOST:
            raise TooMany(f"You may have {MOST} schedules and have {len(others)}; remove one first.")
        await self._put(schedule)

    async def change(self, before: Schedule, after: Schedule) -> None:
        """Raises `Conflict` where it is no longer as in `before`, or its user has another one of its new name."""
        if after != before:
            self._check(before)
            await self._put(after)

    async def remove(self, schedule: Schedule) -> None:
        self._check(schedule)
        event = notices.schedule_deleted(schedule, self._clock())
        await self._writer.durable(self._writer.commit(ChangeSet(removed=(schedule.id,), events=(event,))))

    async def run(self, before: Schedule, after: Schedule, job: Job) -> Job:
        """Queue a run of a schedule that is then as in `after`. Raises what `submit` raises, and `Conflict` where it is
        no longer as in `before`."""
        await self._submissions.check(job)
        self._check(before)
        event = notices.schedule_changed(after, self._clock())
        (queued,) = await self._submissions.queue((job,), ChangeSet(schedules=(after,), events=(event,)))
        return queued

    async def expire(self, before: float) -> None:
        """Delete the schedules that the scheduler paused before an instant, with the files that only they need: their
        users have left, or have not looked after them."""
        for schedule in list(self.all.values()):
            if schedule.notice and schedule.paused is not None and schedule.paused < before:
                await self.remove(schedule)

    async def _put(self, schedule: Schedule) -> None:
        if any(other.name == schedule.name and other.id != schedule.id for other in self._of(schedule.user)):
            raise Conflict(
                f"You have another schedule {schedule.name!r}; give this one a different name, or remove the other.",
                field="name",
            )
        event = notices.schedule_changed(schedule, self._clock())
        await self._writer.durable(self._writer.commit(ChangeSet(schedules=(schedule,), events=(event,))))

    def _of(self, user: UserName) -> list[Schedule]:
        return [schedule for schedule in self._writer.decided.schedules.values() if schedule.user == user]

    def _check(self, before: Schedule) -> None:
        if self._writer.decided.schedules.get(before.id) != before:
            raise Conflict("The schedule has been changed meanwhile; look at it again.")
