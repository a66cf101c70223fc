"""The decisions of a plan, one for every workload, made when they are read.

Changes (start, stop, move, grow, shrink) are recorded while the plan is made. All other workloads stay or wait as
before; their decisions follow from the workload itself and from `Why`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.model import ProjectName, WorkloadId
from scheduler.policy.blocking import Blocked, NoQueue, blocked
from scheduler.policy.plannerstate import PlannerState
from scheduler.policy.projects import ProjectState
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
        why: Why,
    ) -> None:
        self._state = planner
        self._workloads = planner.workloads
        self._changed = changed
        self._blocked = blocked
        self._starts = starts
        self._why = why
        self._told = {**kept, **changed}
        self._positions: dict[ProjectName, Mapping[WorkloadId, int]] = {}
        self._thinned = {project.name for id in changed if (project := planner.workloads[id].project) is not None}

    @property
    def changes(self) -> Mapping[WorkloadId, Decision]:
        """The decisions that are not to stay or to wait as before."""
        return self._changed

    def __getitem__(self, id: WorkloadId) -> Decision:
        found = self._told.get(id)
        if found is None:
            found = self._told[id] = self._tell(self._workloads[id])
        return found

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
        if found is None and job.project is not None:
            found = self._in_the_way(job.project, job)
        if found is None:
            found = blocked(NoQueue(workload.request.project))
        position, start = self._position(job), self._starts.get(job.id)
        if before is None or before.blocked_by != found.by or _when(before) != (position, start):
            before = Decision(Action.WAIT, found.sentence, (), (), found.by, position, start)
        return job.tell(before)

    def _in_the_way(self, project: ProjectState, job: WorkloadState) -> Blocked:
        """What blocks it in the first partition with enough free GPUs, where that can only be a rule, else in the
        first."""
        if not job.options:
            return self._why.blocked(project, job.request)
        ruled = (self._why.blocked(*option) for option in job.options if self._why.has_capacity(option[1]))
        return next(ruled, None) or self._why.blocked(project, job.request)

    def _position(self, job: WorkloadState) -> int | None:
        """Its position in the queue of its project, from 1."""
        if job.project is None:
            return None
        project = job.project.name
        positions = self._positions.get(project)
        if positions is None:
            gone = self._changed if project in self._thinned else ()
            positions = self._positions[project] = self._state.positions(project, gone)
        return positions.get(job.id)


def _when(decision: Decision) -> tuple[int | None, float | None]:
    return decision.position, decision.estimated_start
