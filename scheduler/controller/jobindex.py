"""The unfinished jobs in memory, found by what is asked of them all the time without a pass over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Self

from scheduler.model import Job, JobId, JobState, ProjectName, UserName, WorkloadId

ENDED = 1000
"""So many of the jobs that ended last are in memory, too, for those who are told of it or ask at once."""


class JobIndex:
    """`jobs` are the unfinished ones by id, `holding` those that hold GPUs, `queued` how many each project has
    queued."""

    def __init__(self) -> None:
        self.jobs: dict[WorkloadId, Job] = {}
        self.holding: dict[JobId, Job] = {}
        self.queued: Counter[ProjectName] = Counter()
        self._users: dict[UserName, dict[JobId, Job]] = {}
        self._ended: dict[JobId, Job] = {}

    def of_user(self, user: UserName) -> dict[JobId, Job]:
        return self._users.get(user, {})

    def find(self, job_id: JobId) -> Job | None:
        """A job that has not ended, or has ended only just."""
        return self.jobs.get(job_id) or self._ended.get(job_id)

    def put(self, job: Job) -> None:
        """Take in a job, or what it is now; each keeps its place in the order."""
        before = self.jobs.get(job.id)
        if before is not None and before.state is JobState.QUEUED:
            self.queued[before.request.project] -= 1
        if job.state is JobState.QUEUED:
            self.queued[job.request.project] += 1
        if job.state.holds_gpus:
            self.holding[job.id] = job
        else:
            self.holding.pop(job.id, None)
        if job.state.final:
            self._end(job)
        else:
            self.jobs[job.id] = job
            self._users.setdefault(job.user, {})[job.id] = job

    def _end(self, job: Job) -> None:
        self._ended[job.id] = job
        if self.jobs.pop(job.id, None) is not None:
            del self._users[job.user][job.id]
            if not self._users[job.user]:
                del self._users[job.user]

    def forget(self, deleted: Iterable[JobId]) -> None:
        """Those that were deleted, and those that ended before many others."""
        for job_id in [*list(self._ended)[:-ENDED], *deleted]:
            self._ended.pop(job_id, None)

    def copy(self) -> Self:
        twin = type(self)()
        twin.jobs, twin.holding, twin.queued = dict(self.jobs), dict(self.holding), self.queued.copy()
        twin._users = {user: dict(jobs) for user, jobs in self._users.items()}
        twin._ended = dict(self._ended)
        return twin
