"""The places in line of the jobs of one project, each found when somebody asks: a plan for a hundred thousand jobs that
wait is asked about a few of them.

A line does not change: it is made from copies, so a plan says the same for ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

from scheduler.model import Milli, UserName, WorkloadId
from scheduler.policy.projects import ProjectState
from scheduler.policy.workloads import UrgencyKey, WorkloadState

APART = 32
"""So many classes of equal rank are looked through one by one; more are merged when the line is made."""

_Rank = tuple[int, Milli]
"""What comes first in a job's urgency, and is that of all jobs of a class: priority, and what its user holds."""

LineKey = tuple[_Rank, UrgencyKey]


class Line:
    """`classes` are the waiting jobs of the project that ask for the same, each in order; in a pool of several
    partitions with the project's part in which they wait."""

    def __init__(self, classes: Iterable[tuple[ProjectState, Sequence[WorkloadState]]]) -> None:
        self._held: dict[ProjectState, dict[UserName | None, Milli]] = {}
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
        """A job's place, from 1; `None` where it is not in the line."""
        rank, urgency = self.key(job)
        if rank not in self._ranks:
            return None
        ahead, lists = self._ranks[rank]
        return 1 + ahead + sum([bisect_left(each, urgency) for each in lists])

    @cached_property
    def positions(self) -> Mapping[WorkloadId, int]:
        """The places of all, for who asks about all."""
        in_order = chain.from_iterable([sorted(chain(*lists)) for _, (_, lists) in sorted(self._ranks.items())])
        return {urgency[-1]: position for position, urgency in enumerate(in_order, start=1)}

    def key(self, job: WorkloadState) -> LineKey:
        """Who has a lesser one is ahead."""
        return self._rank(job), job.urgency

    def _rank(self, job: WorkloadState) -> _Rank:
        held = self._held.get(job.project) if job.project is not None else None
        return job.urgency_among(held)[:2]
