"""`surplus: served`: what no guarantee covers goes to the jobs that were served least, whichever project they are of.

The demand of each project is counted by service level, and the surplus is divided for the jobs on the lowest level
first (`fairshare`). So a project is above its due where its jobs on higher levels hold GPUs that others want for jobs
on lower ones, and reclaim stops those on the highest level first (`eligibility.Reclaim`).

A running job counts on its level only once it has saved its state: a stop of one that never did loses more than it
spares.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from scheduler.model import ONE, WorkloadId, held_by
from scheduler.policy.levels import ServiceLevels
from scheduler.policy.partitions import Partition
from scheduler.policy.workloads import WorkloadState


class DemandByLevel:
    """Keeps `on_levels` of the projects: `ask` with their demand, `advance` with the time."""

    def __init__(self, levels: ServiceLevels, partitions: Sequence[Partition]) -> None:
        self.levels = levels
        self._jobs: dict[WorkloadId, tuple[WorkloadState, int]] = {}
        self._next: list[tuple[float, WorkloadId, int]] = []
        self._noted: set[tuple[float, WorkloadId, int]] = set()
        for partition in partitions:
            for project in partition.projects.values():
                project.on_levels = [0] * (len(levels.thresholds) + 1)

    def of(self, job: WorkloadState) -> int:
        """The level on which a job counts."""
        _, level = self._jobs[job.id]
        return level

    def ask(self, job: WorkloadState, sign: int) -> None:
        """A job is new, on the level that it had when it started or was queued, or with -1 gone."""
        workload = job.workload
        if sign < 0:
            level = self.of(job)
        elif not workload.running:
            level, _ = self.levels.when_waiting(workload, job.request.gang_amount)
        else:
            level = 0 if workload.checkpointed is None else self.levels.of(workload.served)
        self._count(job, level, sign)

    def advance(self, now: float) -> float | None:
        """Move the jobs that have reached another level; returns when the next one will."""
        while self._next:
            at, id, level = self._next[0]
            job, before = self._jobs.get(id, (None, 0))
            valid = job is not None and self._change(job, before) == (at, level)
            if valid and at > now:
                return at
            self._noted.discard(heapq.heappop(self._next))
            if job is not None and valid:
                self._count(job, before, -1)
                self._count(job, level, 1)
        return None

    def _count(self, job: WorkloadState, level: int, sign: int) -> None:
        assert job.project is not None
        job.project.on_levels[level] += sign * job.wanted
        if sign < 0:
            del self._jobs[job.id]
            return
        self._jobs[job.id] = job, level
        change = self._change(job, level)
        if change is not None and (entry := (change[0], job.id, change[1])) not in self._noted:
            self._noted.add(entry)  # a job that saves its state every minute is new every minute
            heapq.heappush(self._next, entry)

    def _change(self, job: WorkloadState, level: int) -> tuple[float, int] | None:
        """When a job that counts on a level will count on another one, and on which."""
        workload = job.workload
        if not workload.running:
            _, lowest_at = self.levels.when_waiting(workload, job.request.gang_amount)
            return (lowest_at, 0) if level else None
        gpus = held_by(workload.placement) / ONE
        if workload.checkpointed is None or workload.started is None or not gpus:
            return None
        if level == len(self.levels.thresholds):
            return None
        return workload.started + (self.levels.thresholds[level] - workload.served) / gpus, level + 1
