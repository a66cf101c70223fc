"""Submissions: a job, or the jobs of an array, is admitted, made durable and queued, once for each idempotency key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from scheduler.controller import admission, dependencies, notices
from scheduler.controller.statewriter import StateWriter
from scheduler.engines.base import Traits
from scheduler.errors import Invalid
from scheduler.model import After, ArrayId, Job, JobId, JobState, UserName
from scheduler.store import ChangeSet, JobFilter, Store

NOTHING_ELSE = ChangeSet()


class Submissions:
    """`wake` is called when a job is queued."""

    def __init__(
        self,
        writer: StateWriter,
        store: Store,
        traits: Traits,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._traits = traits
        self._store = store
        self._wake = wake
        self._clock = clock
        self._submitting: dict[tuple[str, str], asyncio.Task[Sequence[Job]]] = {}

    async def submit(self, job: Job) -> Job:
        """Queue a new job; durable when it returns. A repeated idempotency key of the same user returns the first job.

        Raises `Invalid` where the job could never run, `Conflict` where it depends on one that has not succeeded,
        `TooMany` where its owner has too many unfinished jobs.
        """
        return (await self.submit_array((job,)))[0]

    async def submit_array(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Queue jobs that differ only in their programs, all or none. The first one's idempotency key is that of
        all."""
        job = jobs[0]
        if job.idempotency_key is None:
            return await self._submit(jobs)
        admission.admit_text(user=job.user, idempotency_key=job.idempotency_key)
        key = (job.user, job.idempotency_key)
        submitting = self._submitting.get(key)
        if submitting is None:
            submitting = asyncio.get_running_loop().create_task(self._submit_once(jobs, *key))
            self._submitting[key] = submitting
            submitting.add_done_callback(partial(self._submitted, key))
        return await asyncio.shield(submitting)

    async def check(self, job: Job) -> None:
        """Refuse a job as `submit` would, without keeping it."""
        decided = self._writer.decided
        admission.admit_job_text(job)
        admission.admit_traits(job.request, self._traits)
        admission.admit_image(job.program, self._traits)
        admission.admit_job(job.request, job.program, decided.pool, decided.nodes, grows=self._traits.autoscaled)
        await self._may_follow(job.request.after)
        self._may_have(job.user, more=1)

    async def _submit_once(self, jobs: Sequence[Job], user: UserName, key: str) -> Sequence[Job]:
        first = await self._store.job_with_key(user, key)
        if first is None:
            return await self._submit(jobs)
        array = first.request.array
        return (first,) if array is None else await self._members(array.id)

    async def _members(self, array: ArrayId) -> Sequence[Job]:
        """An array's jobs, in order."""
        members = await self._store.jobs(JobFilter(array=array), limit=None)
        return sorted(members, key=lambda job: job.request.array.index if job.request.array else 0)

    def _submitted(self, key: tuple[str, str], submitting: asyncio.Task[Sequence[Job]]) -> None:
        del self._submitting[key]
        if not submitting.cancelled():
            submitting.exception()  # the caller may have gone

    async def _submit(self, jobs: Sequence[Job]) -> Sequence[Job]:
        for job in jobs[1:]:
            admission.admit_job_text(job)
        await self.check(jobs[0])
        return await self.queue(jobs)

    async def queue(self, jobs: Sequence[Job], change: ChangeSet = NOTHING_ELSE) -> Sequence[Job]:
        """Queue jobs that have been checked, in the same transaction as `change`. Raises as `submit` does."""
        for job in jobs:
            admission.admit_program(job.program, self._traits)
        self._may_have(jobs[0].user, more=len(jobs))
        queued = tuple(replace(job, state=JobState.QUEUED, reason="Waiting for its turn.") for job in jobs)
        events = tuple(notices.job_submitted(job, self._clock()) for job in queued)
        written = self._writer.commit(replace(change, submitted=queued, events=(*events, *change.events)))
        self._wake()
        await self._writer.durable(written)
        return queued

    def _may_have(self, user: UserName, more: int) -> None:
        decided = self._writer.decided
        admission.admit_more(user, len(decided.jobs_of(user)), more, decided.pool)

    async def _may_follow(self, wanted: Sequence[After]) -> None:
        """When this returns, every dependency that is not in the book is satisfied. Raises `Invalid` or `Conflict`."""
        known: set[After] = set()
        while wanted:
            unfinished = dependencies.names(self._writer.decided.jobs.values())
            ended = [after for after in wanted if after.job not in unfinished and after not in known]
            if not ended:
                return
            await self._writer.durable()
            for after in ended:
                job = await self._store.job(JobId(after.job))
                jobs = await self._members(ArrayId(after.job)) if job is None else [job]
                if not jobs:
                    raise Invalid(f"There is no job {after.job} to run after.", field="after")
                if all(each.state.final for each in jobs):  # otherwise their end could not be written
                    for each in jobs:
                        dependencies.check_dependency(after, each)
                    known.add(after)
