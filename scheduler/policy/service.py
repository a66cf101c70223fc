"""The order `served`: short jobs first, without declared run times.

A job with little service is likely to be short, and one that has run for long is likely to run for as long again. So
jobs are put on levels by the GPU-hours that they have held over all their attempts (multi-level feedback, as in
Tiresias, NSDI 2019), and a job may be paused for one on a lower level of the same project and priority, where that
loses less than the wait it spares.

Nobody starves: a job that has waited for a multiple of the time that it ran is on the lowest level again, and the more
often it was stopped, the longer it runs before it may be paused once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from scheduler.model import ONE, QueueOrder, WorkloadId
from scheduler.policy.eligibility import EligibilityRules
from scheduler.policy.evictions import Eviction, Floor, Listed, Losses, VictimClass
from scheduler.policy.levels import RESTART, ServiceLevels
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState
from scheduler.policy.workloads import WorkloadState

QUIET = 600.0
"""How long a job that was stopped runs before it may be paused again, in seconds, times how often it was stopped."""

_PAUSED_FOR = re.compile(r"Paused for (\S+) of the same project, which has been served less\.")


def paused_for(newcomer: WorkloadId) -> str:
    """Why a job is stopped for one on a lower level."""
    return f"Paused for {newcomer} of the same project, which has been served less."


def whom_paused_for(reason: str) -> str | None:
    """The id of the job that another was paused for, by its reason; `None` where it was stopped for something else."""
    found = _PAUSED_FOR.fullmatch(reason)
    return found and found[1]


class Pausing(EligibilityRules):
    """A job takes GPUs from jobs of its project and priority that are on a higher level."""

    def __init__(
        self, state: PoolState, newcomer: WorkloadState, project: ProjectState, now: float, levels: ServiceLevels
    ) -> None:
        super().__init__(state, newcomer, now)
        self.project = project
        self.levels = levels

    def possible(self) -> bool:
        """Whether anybody runs on a higher level."""
        return any(True for _ in self._higher())

    def classes(self) -> Iterator[VictimClass]:
        by_level: dict[int, list[Eviction]] = {}
        for level, eviction in self._higher():
            by_level.setdefault(level, []).append(eviction)
        for level in sorted(by_level, reverse=True):
            yield Listed(self.state, by_level[level])

    def _higher(self) -> Iterator[tuple[int, Eviction]]:
        candidates = self.state.candidates.get(self.project)
        if not candidates:
            return
        own = self.newcomer.level
        for loss, *_, job in candidates.by_loss(self.newcomer.priority, self.now):
            level, _ = self.levels.when_running(job.workload, self.now)
            if level > own and self._unprotected(job) and self._spares(job, loss):
                yield level, Eviction(job, loss, job.amount)

    def _unprotected(self, job: WorkloadState) -> bool:
        workload = job.workload
        if workload.started is None:
            return False  # it is only just starting
        until = workload.started + QUIET * workload.preemptions
        if until > self.now:
            self.protected_until = until if self.protected_until is None else min(until, self.protected_until)
            return False
        return super()._unprotected(job)

    def _spares(self, job: WorkloadState, loss: float) -> bool:
        """Whether the work that a stop loses is less than the wait that it spares the newcomer: a job is expected to
        run for as long as it has run."""
        if not job.amount:
            return False
        ran = job.workload.served_until(self.now) * ONE / job.amount
        lost = loss + RESTART * job.amount
        return lost < ran * min(job.amount, self.newcomer.request.gang_amount)

    def may_lose(self, eviction: Eviction, losses: Losses, floor: Floor) -> bool:
        return floor is Floor.KEPT


def by_service(project: ProjectState, default: QueueOrder) -> bool:
    """Whether jobs of a project wait in the order `served`."""
    order = next((step.order for step in project.path if step.order is not None), default)
    return order is QueueOrder.SERVED
