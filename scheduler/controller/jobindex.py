"""The unfinished jobs in memory, with indexes for frequent lookups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Self

from scheduler.model import Job, JobId, JobState, ProjectName, UserName, WorkloadId

ENDED = 1000
"""The number of recently ended jobs that are also in memory, for requests that follow their end."""


class JobIndex:
    """`jobs` are the unfinished ones by id, `states` how many are in each state, `holding` those that hold GPUs,
    `by_user` and `by_project` how many each user and project has in each state."""

    def __init__(self) -> None:
        self.jobs: dict[WorkloadId, Job] = {}
        self.states: Counter[JobState] = Counter()
        self.holding: dict[JobId, Job] = {}
        self.by_user: dict[UserName, Counter[JobState]] = defaultdict(Counter)
        self.by_project: dict[ProjectName, Counter[JobState]] = defaultdict(Counter)
        self._users: dict[UserName, dict[JobId, Job]] = {}
        self._ended: dict[JobId, Job] = {}

    def of_user(self, user: UserName) -> dict[JobId, Job]:
        return self._users.get(user, {})

    def find(self, job_id: JobId) -> Job | None:
        """A job that is unfinished or has ended recently."""
        return self.jobs.get(job_id) or self._ended.get(job_id)

    def put(self, job: Job) -> None:
        """Add or replace a job; it keeps its position."""
        before = self.jobs.get(job.id)
        if before is not None:
            self._count(before, -1)
        if job.state.holds_gpus:
            self.holding[job.id] = job
        else:
            self.holding.pop(job.id, None)
        if job.state.final:
            self._end(job)
        else:
            self._count(job, 1)
            self.jobs[job.id] = job
            self._users.setdefault(job.user, {})[job.id] = job

    def _count(self, job: Job, change: int) -> None:
        for counts in (self.states, self.by_user[job.user], self.by_project[job.request.project]):
            counts[job.state] += change

    def _end(self, job: Job) -> None:
        self._ended[job.id] = job
        if self.jobs.pop(job.id, None) is not None:
            del self._users[job.user][job.id]
            if not self._users[job.user]:
                del self._users[job.user], self.by_user[job.user]

    def forget(self, deleted: Iterable[JobId]) -> None:
        """Remove deleted jobs, and the oldest of those that have ended."""
        for job_id in [*list(self._ended)[:-ENDED], *deleted]:
            self._ended.pop(job_id, None)

    def copy(self) -> Self:
        twin = type(self)()
        twin.jobs, twin.states = dict(self.jobs), self.states.copy()
        twin.holding = dict(self.holding)
        twin.by_user.update({user: counts.copy() for user, counts in self.by_user.items()})
        twin.by_project.update({project: counts.copy() for project, counts in self.by_project.items()})
        twin._users = {user: dict(jobs) for user, jobs in self._users.items()}
        twin._ended = dict(self._ended)
        return twin
