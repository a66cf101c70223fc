"""The decisions of a plan, one for every workload, made when they are read.

Changes (start, stop, move, grow, shrink) are recorded while the plan is made. All other workloads stay or wait as
before; their decisions follow from the workload itself and from `Why`. `frozen` gives those that stay as they are when
the planner goes on, also when they are read meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from copy import copy
from functools import cached_property
from itertools import zip_longest
from typing import Self

from scheduler.model import ProjectName, WorkloadId
from scheduler.policy.blocking import Blocked, NoQueue, blocked
from scheduler.policy.collector import collector_at_rest
from scheduler.policy.plannerstate import PlannerState
from scheduler.policy.positions import HeldByUser, Line, LineKey
from scheduler.policy.types import Action, Decision
from scheduler.policy.why import Why
from scheduler.policy.workloads import WorkloadState


class Decisions(Mapping[WorkloadId, Decision]):
    """By the workload's id, in the order of the snapshot. A workload that has changed since is described as it is
    now."""

    def __init__(
        self,
        planner: PlannerState,
        changed: dict[WorkloadId, Decision],
        kept: dict[WorkloadId, Decision],
        blocked: dict[WorkloadId, Blocked],
        starts: dict[WorkloadId, float],
        held_before: HeldByUser,
        why: Why,
    ) -> None:
        self._state = planner
        self._workloads = planner.workloads
        self._changed = changed
        self._blocked = blocked
        self._starts = starts
        self._held_before = held_before
        self._why = why
        self._told = {**kept, **changed}
        self._lines: Mapping[ProjectName, Line] | None = None
        self._gone: dict[ProjectName, list[LineKey]] = {}
        self._positions: dict[ProjectName, Mapping[WorkloadId, int]] = {}

    def frozen(self) -> Self:
        """A copy that stays valid. Nothing may have changed since the plan was made."""
        twin = copy(self)
        twin._workloads = self._workloads.copy()  # three times as fast as dict(…) where some have left
        twin._told = dict(self._told)
        twin._lines = {project.name: self._state.line(project.name) for project in self._state.waiting}
        twin._gone = {name: self._gone_from(name, line) for name, line in twin._lines.items()}
        return twin

    def in_line(self) -> Iterator[WorkloadId]:
        """The jobs that waited before the plan: those that were first in line in each project, then the second ones,
        and so on."""
        lines = self._lines
        if lines is None:
            lines = {project.name: self._state.line(project.name) for project in self._state.waiting}
        for places in zip_longest(*(line.in_order() for _, line in sorted(lines.items()))):
            yield from (id for id in places if id is not None)

    def settle(self) -> None:
        """Determine why jobs wait before requests become eligible for other nodes."""
        for project, classes in self._state.waiting.items():
            for request, jobs in classes.items():
                if jobs[0].options:
                    self._in_the_way(jobs[0])
                else:
                    self._why.blocked(project, request)

    @property
    def changes(self) -> Mapping[WorkloadId, Decision]:
        """The decisions other than to stay or to wait as before."""
        return self._changed

    def __getitem__(self, id: WorkloadId) -> Decision:
        found = self._told.get(id)
        if found is None:
            found = self._told[id] = self._tell(self._workloads[id])
        return found

    def values(self) -> ValuesView[Decision]:
        return self._all().values()

    def items(self) -> ItemsView[WorkloadId, Decision]:
        return self._all().items()

    def _all(self) -> dict[WorkloadId, Decision]:
        """Every decision, made now."""
        told = self._told
        with collector_at_rest():
            for id, job in self._workloads.items():
                if id not in told:
                    told[id] = self._tell(job)
            return {id: told[id] for id in self._workloads}

    def __iter__(self) -> Iterator[WorkloadId]:
        return iter(self._workloads)

    def __len__(self) -> int:
        return len(self._workloads)

    def __repr__(self) -> str:
        return f"Decisions({dict(self)!r})"

    def _tell(self, job: WorkloadState) -> Decision:
        """The decision for a workload: the same object as before if it still holds."""
        workload, before = job.workload, job.told
        if workload.stopping:
            return before or job.tell(Decision(Action.KEEP, "Stopping."))
        if workload.running:
            return before or job.tell(Decision(Action.KEEP, "Keeps running.", workload.placement))
        found = self._blocked.get(job.id)
        if found is None:
            if job.project is None:
                found = blocked(NoQueue(workload.request.project))
            else:
                found = self._in_the_way(job) if job.options else self._why.blocked(job.project, job.request)
        position, start = self._position(job), self._starts.get(job.id)
        if before is None or before.blocked_by != found.by or _when(before) != (position, start):
            before = Decision(Action.WAIT, found.sentence, (), (), found.by, position, start)
        return job.tell(before)

    def _in_the_way(self, job: WorkloadState) -> Blocked:
        """What blocks it in the first partition with enough free GPUs, where that can only be a rule, else in the
        first."""
        ruled = (self._why.blocked(*option) for option in job.options if self._why.has_capacity(option[1]))
        return next(ruled, None) or self._why.blocked(*job.options[0])

    def _position(self, job: WorkloadState) -> int | None:
        """Its position in the queue of its project, from 1."""
        if job.project is None:
            return None
        project = job.project.name
        if self._lines is None:
            found = self._positions.get(project)
            if found is None:
                found = self._positions[project] = self._state.positions(project, self._changed, self._held_before)
            return found.get(job.id)
        if project not in self._lines:
            return None
        line, gone = self._lines[project], self._gone[project]
        position = line.position(job)
        return position if position is None or not gone else position - bisect_left(gone, line.key(job))

    def _gone_from(self, project: ProjectName, line: Line) -> list[LineKey]:
        """Those of its jobs that wait no more once the plan is carried out, in order."""
        return sorted([line.key(job) for job in self._starting.get(project, ())])

    @cached_property
    def _starting(self) -> Mapping[ProjectName, list[WorkloadState]]:
        """The jobs of each project that were waiting and do something else now."""
        found = defaultdict[ProjectName, list[WorkloadState]](list)
        for id in self._changed:
            job = self._workloads[id]
            if job.project is not None and not job.workload.running:
                found[job.project.name].append(job)
        return found


def _when(decision: Decision) -> tuple[int | None, float | None]:
    return decision.position, decision.estimated_start
