"""The queue positions of the jobs of one project, each computed on demand: of a hundred thousand waiting jobs only a
few are asked for.

A line is made from copies and never changes, so a plan's positions stay the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain

from scheduler.model import Milli, UserName, WorkloadId
from scheduler.policy.projects import ProjectState
from scheduler.policy.workloads import UrgencyKey, WorkloadState

APART = 32
"""Up to this many classes of equal rank are scanned one by one; more are merged when the line is made."""

_Rank = tuple[int, Milli]
"""What comes first in a job's urgency, and is that of all jobs of a class: priority, and what its user holds."""

LineKey = tuple[_Rank, UrgencyKey]

HeldByUser = Mapping[ProjectState, Mapping[UserName | None, Milli]]
"""What users hold of projects whose jobs wait in the order `served`: before a plan, since places in line are those
until it is carried out."""

WaitingClass = tuple[ProjectState, Sequence[WorkloadState]]
"""Waiting jobs of one project that ask for the same, in order; in a pool of several partitions with the project's part
in which they wait."""


class Line:
    """`classes` are those of one project."""

    def __init__(self, classes: Iterable[WaitingClass]) -> None:
        self._held: dict[ProjectState, Mapping[UserName | None, Milli]] = {}
        found = defaultdict[_Rank, list[list[UrgencyKey]]](list)
        for project, jobs in classes:
            if project.held:
                self._held.setdefault(project, dict(project.held))
            found[self._rank(jobs[0])].append([job.urgency for job in jobs])
        self._ranks: dict[_Rank, tuple[int, list[list[UrgencyKey]]]] = {}
        ahead = 0
        for rank, lists in sorted(found.items()):
            self._ranks[rank] = ahead, lists if len(lists) <= APART else [sorted(chain(*lists))]
            ahead += sum([len(each) for each in lists])

    def position(self, job: WorkloadState) -> int | None:
        """A job's position, from 1; `None` where it is not in the line."""
        rank, urgency = self.key(job)
        if rank not in self._ranks:
            return None
        ahead, lists = self._ranks[rank]
        return 1 + ahead + sum([bisect_left(each, urgency) for each in lists])

    def in_order(self) -> Iterator[WorkloadId]:
        """The ids of its jobs."""
        for _, lists in self._ranks.values():
            yield from (urgency[-1] for urgency in merge(*lists))

    def key(self, job: WorkloadState) -> LineKey:
        """A sort key: jobs with a lesser one are ahead."""
        return self._rank(job), job.urgency

    def _rank(self, job: WorkloadState) -> _Rank:
        held = self._held.get(job.project) if job.project is not None else None
        return job.urgency_among(held)[:2]


def held_by_user(projects: Iterable[ProjectState]) -> HeldByUser:
    """What users hold now."""
    return {project: dict(project.held) for project in projects if project.held}


def positions(
    classes: Iterable[WaitingClass], gone: Container[WorkloadId], held_before: HeldByUser
) -> Mapping[WorkloadId, int]:
    """The places of all jobs of one project, counted without those that are `gone`: quicker than one by one."""
    in_order: list[UrgencyKey] = []
    for project, jobs in classes:
        left = [job for job in jobs if job.id not in gone]
        held = held_before.get(project)
        in_order += [job.urgency_among(held) for job in left] if held else [job.urgency for job in left]
    in_order.sort()
    return {urgency[-1]: position for position, urgency in enumerate(in_order, start=1)}
