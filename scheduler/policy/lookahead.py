"""Keeps jobs that cannot be stopped out of the way of a changing guarantee.

When a guarantee rises by calendar, its GPUs are reclaimed from jobs that may be stopped then. A job that may not be
stopped, because it cannot be preempted or is within its minimum run time, starts only if

- it is expected to end, or may be stopped, before the guarantee changes, or
- it will be inside its own project's guarantee then, or
- what such jobs hold beyond their guarantees then leaves enough GPUs for all that is guaranteed.

All other jobs start as usual and use the GPUs until then. A job that was held back is evaluated again in every plan,
and others of its request class that end sooner are tried instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler.model import Milli, ProjectName, Request, time_of_day
from scheduler.policy.intheway import InTheWay
from scheduler.policy.partitions import Partition
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState
from scheduler.policy.workloads import RequestClass, WorkloadState

PASSED_OVER = 100
"""The most jobs of a request class that are passed over in one plan."""


class Ahead(NamedTuple):
    """A change of the guarantee of a project, with its place among them."""

    at: float
    name: ProjectName
    project: ProjectState
    number: int

    @property
    def rises(self) -> bool:
        changes = self.project.changes
        before = self.project.guarantee_at(changes[self.number - 1].at) if self.number else self.project.guarantee
        return self.project.guarantee_at(self.at) > before


def changes_ahead(partitions: Iterable[Partition]) -> Sequence[Ahead]:
    """All changes of guarantees that are known, the first first."""
    return sorted(
        [
            Ahead(change.at, project.name, project, number)
            for partition in partitions
            for project in partition.projects.values()
            for number, change in enumerate(project.changes)
        ],
        key=lambda ahead: ahead[:2],
    )


class LookAhead:
    """The look-ahead of one cycle to the changes `ahead`. `found` has the blockers by project and request class;
    `started` the jobs that the cycle has started."""

    def __init__(
        self,
        state: PoolState,
        partitions: Sequence[Partition],
        ahead: Sequence[Ahead],
        started: Sequence[WorkloadState],
        now: float,
    ) -> None:
        self._state = state
        self._capacity = {partition.key: partition.capacity for partition in partitions}
        self._roots = {partition.key: partition.roots for partition in partitions}
        self._started = started
        self._now = now
        self._ahead = ahead
        self._stay: dict[float, tuple[int, dict[ProjectState, Milli]]] = {}
        self._passed: dict[RequestClass, int] = {}
        self.found: dict[tuple[ProjectName, RequestClass], InTheWay] = {}

    def passes_over(self, job: WorkloadState, project: ProjectState, request: RequestClass) -> bool:
        """Whether a job that could not be started was in the way, so that the next one of its class may start."""
        if (project.name, request) not in self.found or not self.in_the_way(job, project, request):
            return False
        self._passed[request] = self._passed.get(request, 0) + 1
        return self._passed[request] <= PASSED_OVER

    def in_the_way(self, job: WorkloadState, project: ProjectState, request: RequestClass) -> bool:
        """Whether a newcomer would hold what is guaranteed to others at a time when it cannot be stopped."""
        if not self._ahead:
            return False
        until = self._until(job.workload.request, self._now)
        for ahead in self._ahead:
            if ahead.at >= until:
                return False
            if self._breaks(request, project, ahead):
                self.found[project.name, request] = self._in_words(request, ahead)
                return True
        return False

    def _until(self, request: Request, begun: float) -> float:
        """Until when a job is expected to run without being preemptible."""
        end = float("inf") if request.expected_runtime is None else max(self._now, begun + request.expected_runtime)
        return min(end, begun + request.min_runtime) if request.preemptible else end

    def _breaks(self, request: RequestClass, project: ProjectState, ahead: Ahead) -> bool:
        """Whether it leaves too little for what is guaranteed from then on, on any level of the tree."""
        if ahead.project.partition != project.partition:
            return False
        asked, at = request.gang_amount, ahead.at
        if not request.preemptible and ahead.project in project.path:
            stay = self._staying(at)
            return any(stay.get(step, 0) + asked > step.guarantee_at(at) for step in project.path)
        if not ahead.rises or ahead.project in project.path:
            return False
        stay, capacity = self._staying(at), self._capacity[project.partition]
        for step in project.path:
            above = step.parent
            siblings = self._roots[project.partition] if above is None else above.children
            total = capacity if above is None else min(capacity, max(above.guarantee_at(at), above.due))
            beyond = {each: stay.get(each, 0) - each.guarantee_at(at) for each in siblings}
            beyond[step] += asked
            spare = total - sum([min(each.guarantee_at(at), each.limit) for each in siblings])
            if beyond[step] > 0 and sum([max(0, more) for more in beyond.values()]) > max(0, spare):
                return True
        return False

    def _staying(self, at: float) -> dict[ProjectState, Milli]:
        """What jobs that will still run then and cannot be stopped hold, by project and its ancestors."""
        if at not in self._stay:
            running = {id: job for jobs in self._state.standing.values() for id, job in jobs.items()}
            self._stay[at] = 0, {}
            self._count([job for job in running.values() if job.workload.running and not job.releasing], at)
        counted, found = self._stay[at]
        self._count(self._started[counted:], at)
        self._stay[at] = len(self._started), found
        return found

    def _count(self, jobs: Iterable[WorkloadState], at: float) -> None:
        found = self._stay[at][1]
        for job in jobs:
            begun = self._now if job.workload.started is None else job.workload.started
            if job.project is not None and self._until(job.workload.request, begun) > at:
                for step in job.project.path:
                    found[step] = found.get(step, 0) + job.amount

    def _in_words(self, request: RequestClass, ahead: Ahead) -> InTheWay:
        change = ahead.project.changes[ahead.number]
        return InTheWay(
            project=ahead.project.name,
            when=time_of_day(ahead.at, change.timezone, self._now),
            at=ahead.at,
            guaranteed=ahead.project.guarantee_at(ahead.at),
            asked=request.gang_amount,
            rises=ahead.rises,
            preemptible=request.preemptible,
        )
