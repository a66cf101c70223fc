"""Deletes finished jobs: at the owner's request, and automatically once they are older than the pool keeps.

What must hold, over a `kill -9` at any instant:
- A job is first deleted from the state, in one transaction, and only then its files. The next start deletes files that
  a crash has left: those of deleted jobs only, whatever else is in the folder.
- A job is not deleted while others wait for it, nor while a job of its array is unfinished.
- It is done in small steps, so that no request waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from scheduler.controller import dependencies, notices
from scheduler.controller.statewriter import StateWriter
from scheduler.engines.files import JobFiles
from scheduler.errors import Conflict, RunaiError
from scheduler.model import Job, JobId
from scheduler.store import ChangeSet, Store

log = logging.getLogger(__name__)

STEP = 100
"""How many jobs are deleted in one step …"""

EVENTS = 1_000
"""… and how many events …"""

REST = 0.05
"""… and the seconds between two steps."""


class Deletion:
    """Deletes jobs from the state, and then their files."""

    def __init__(self, writer: StateWriter, store: Store, files: JobFiles, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._store = store
        self._files = files
        self._clock = clock
        self._left_behind = True

    async def delete(self, job: Job, by: str | None) -> None:
        """Delete a job with all its data; `by` is set if that is not its owner. Raises `Conflict` while it is
        needed."""
        if not job.state.final:
            raise Conflict(f"Job {job.id} is {job.state.value}; cancel it first, and delete it after it has ended.")
        if self._is_needed(job, self._wanted()):
            raise Conflict(f"Job {job.id} is needed by unfinished jobs; delete it after they have ended.")
        await self._delete([job], by)

    async def expire(self, before: float) -> int:
        """Delete the jobs that ended before an instant, and the events from before it; returns the number of jobs."""
        count, last = 0, None
        while page := await self._store.ended(before, last, STEP):
            wanted = self._wanted()
            over = [job for job in page if not self._is_needed(job, wanted)]
            if over:
                await self._delete(over)
            count += len(over)
            last = page[-1].submitted, page[-1].id
            await asyncio.sleep(REST)
        while outdated := await self._outdated(before):
            await self._writer.durable(self._writer.commit(ChangeSet(outdated=outdated)))
            await asyncio.sleep(REST)
        return count

    async def finish(self) -> None:
        """Delete the files of jobs that are already deleted from the state, after a crash or a failure to delete
        them."""
        if not self._left_behind:
            return
        self._left_behind = False
        kept = sorted(await self._files.kept())
        for start in range(0, len(kept), STEP):
            await self._clear(sorted(await self._store.deleted(kept[start : start + STEP])))
            await asyncio.sleep(REST)

    def _wanted(self) -> frozenset[str]:
        """The jobs and arrays that unfinished jobs wait for or belong to."""
        dependent = self._writer.decided.dependent
        return dependencies.names(dependent) | {after.job for job in dependent for after in job.request.after}

    def _is_needed(self, job: Job, wanted: frozenset[str]) -> bool:
        return not wanted.isdisjoint(dependencies.names((job,)))

    async def _delete(self, jobs: Sequence[Job], by: str | None = None) -> None:
        now = self._clock()
        ids = tuple(job.id for job in jobs)
        events = tuple(notices.job_deleted(job, now) for job in jobs)
        audit = tuple(record for job in jobs for record in notices.removed(job, by, now))
        await self._writer.durable(self._writer.commit(ChangeSet(deleted=ids, events=events, audit=audit)))
        await self._clear(ids)

    async def _clear(self, jobs: Sequence[JobId]) -> None:
        for job in jobs:
            try:
                await self._files.forget(job)
            except (RunaiError, OSError) as error:
                self._left_behind = True
                log.warning("The files of the deleted job %s could not be deleted yet: %s", job, error)

    async def _outdated(self, before: float) -> int:
        """The last of the oldest events from before an instant. The newest event of all is kept, since ids continue
        from it."""
        oldest = await self._store.events(0, EVENTS)
        outdated = 0
        for event in oldest:
            if event.at >= before or event.id >= self._writer.book.last_event:
                break
            outdated = event.id
        return outdated
