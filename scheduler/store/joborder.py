"""The orders in which jobs are listed page by page, the same in the store and in memory.

What must hold: pages of one order contain each job at most once, also while jobs start and end. Orders by start and by
waiting time therefore show jobs as they were at the first page, at the instant `now`; all other keys do not change with
a job's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest, nsmallest

from sqlalchemy import ColumnElement, UnaryExpression, case, cast, func, literal, tuple_

from scheduler.model import Job, JobKey
from scheduler.store import tables

_NEVER = 1e18
"""An instant after every start, in seconds."""


@dataclass(frozen=True, slots=True)
class JobOrder:
    """`after` is the key and the id of the last job of the previous page. Jobs that never started are the last ones by
    start, in both directions. Jobs with the same key are ordered by id."""

    by: JobKey = JobKey.SUBMITTED
    descending: bool = True
    now: float = 0.0
    after: tuple[float | str, str] | None = None

    def key(self, job: Job) -> float | str:
        started = job.attempts[0].started if job.attempts else None
        if started is not None and started > self.now:
            started = None
        match self.by:
            case JobKey.SUBMITTED:
                return job.submitted
            case JobKey.STARTED:
                return self._unstarted if started is None else started
            case JobKey.WAITING:
                ended = self.now if job.ended is None or job.ended > self.now else job.ended
                return (ended if started is None else started) - job.submitted
            case JobKey.GPUS:
                return job.request.gpus
            case JobKey.PRIORITY:
                return job.request.priority
            case JobKey.PROJECT:
                return job.request.project
            case JobKey.USER:
                return job.user

    def page(self, jobs: Iterable[Job], limit: int) -> list[Job]:
        """The first of these jobs, from `after` on."""
        keys = ((self.key(job), job.id, job) for job in jobs)
        rest = (each for each in keys if self.after is None or self._follows(each[0], each[1]))
        if self.descending:
            return [job for _, _, job in nlargest(limit, rest, key=lambda each: each[:2])]
        return [job for _, _, job in nsmallest(limit, rest, key=lambda each: each[:2])]

    def _follows(self, key: float | str, id: str) -> bool:
        here: tuple[object, str] = (key, id)
        return here < self.after if self.descending else here > self.after  # type: ignore[operator]

    @property
    def _unstarted(self) -> float:
        return -1.0 if self.descending else _NEVER

    # -- in the store ---------------------------------------------------------------------------------------

    def rest(self) -> Iterator[ColumnElement[bool]]:
        """The condition for the jobs from `after` on."""
        if self.after is not None:
            here, last = tuple_(self._column(), tables.jobs.c.id), tuple_(*self.after)
            yield here < last if self.descending else here > last

    def columns(self) -> tuple[UnaryExpression[object], ...]:
        key, id = self._column(), tables.jobs.c.id
        return (key.desc(), id.desc()) if self.descending else (key.asc(), id.asc())

    def _column(self) -> ColumnElement[object]:
        job = tables.jobs.c
        started = case((job.started <= self.now, job.started))
        match self.by:
            case JobKey.STARTED:
                return func.coalesce(started, self._unstarted)
            case JobKey.WAITING:
                ended = case((job.ended <= self.now, job.ended), else_=literal(self.now))
                return func.coalesce(started, ended) - job.submitted
            case JobKey.PROJECT | JobKey.USER:
                return cast(job[self.by.value], tables.Id)  # byte by byte, as in memory
            case _:
                return job[self.by.value]


NEWEST = JobOrder()
