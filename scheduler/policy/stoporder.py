"""The order in which the running jobs of a project would lose their GPUs to other projects, and which of them are over
quota.

The order is that of the search for victims (`eligibility.Reclaim`, `candidates.Candidates`): surplus workers of elastic
jobs, then lower priority, then (with `surplus: served`) higher service levels, then the least work lost, then the
younger. Jobs within their minimum run time come after those, and jobs that can't be preempted last. Over quota are the
jobs that would be stopped or shrunk first, until their project is down to its guarantee. A job that would take it below
is over quota only if no other job is left to stop.

It is computed on demand, from workloads that no longer change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from scheduler.model import Environment, Milli, Node, Pool, ProjectName, SurplusOrder, Workload, WorkloadId, held_by
from scheduler.policy import quotas
from scheduler.policy.levels import ServiceLevels

_Rank = tuple[int, int, int, float, float, float, WorkloadId]


class StopOrder:
    """The stop order of the jobs that run once a plan is carried out, which are among `workloads`."""

    def __init__(
        self, pool: Pool, nodes: Iterable[Node], workloads: Callable[[], Iterable[Workload]], now: float
    ) -> None:
        self._pool = pool
        self._nodes = nodes
        self._workloads = workloads
        self._now = now
        self._levels = ServiceLevels(pool.settings) if pool.settings.surplus is SurplusOrder.SERVED else None

    @cached_property
    def over_quota(self) -> frozenset[WorkloadId]:
        """The jobs that hold what goes beyond their projects' guarantees, as far as these would lose it first."""
        partitions = quotas.partition_keys(self._pool.projects)
        guaranteed = {key: quotas.guarantees(key, self._pool.projects) for key in partitions}
        found = set[WorkloadId]()
        for (project, partition), jobs in self._running.items():
            guarantee = guaranteed[partition].get(project, 0)
            if guarantee is not None:
                found |= self._beyond(jobs, sum([held_by(job.placement) for job in jobs]) - guarantee)
        return frozenset(found)

    @cached_property
    def positions(self) -> Mapping[WorkloadId, int]:
        """The place of each job in the order of its project and partition, from 1: the first is stopped first."""
        return {job.id: place for jobs in self._running.values() for place, job in enumerate(jobs, start=1)}

    @cached_property
    def _running(self) -> Mapping[tuple[ProjectName, quotas.PartitionKey], list[Workload]]:
        """The jobs of each project in each partition, in order."""
        nodes = {node.name: node for node in self._nodes}
        partitions = quotas.partition_keys(self._pool.projects)
        found = defaultdict[tuple[ProjectName, quotas.PartitionKey], list[Workload]](list)
        for workload in self._workloads():
            if not workload.running or workload.stopping or workload.request.environment is Environment.BUILD:
                continue
            node = next((nodes[worker.node] for worker in workload.placement if worker.node in nodes), None)
            if node is not None:
                partition = quotas.partition_of(node, partitions) if len(partitions) > 1 else quotas.REMAINDER
                found[workload.request.project, partition].append(workload)
        for jobs in found.values():
            jobs.sort(key=self._rank)
        return found

    def _rank(self, job: Workload) -> _Rank:
        request, started = job.request, job.started or 0.0
        saved = started if job.checkpointed is None else job.checkpointed
        kind = 0 if self._may_stop(job) else 1 if request.preemptible else 2
        loss = max(0.0, self._now - saved) * held_by(job.placement)
        level = 0 if self._levels is None else self._levels.when_stopped(job, self._now)
        return kind, request.priority, -level, loss, -saved, -started, job.id

    def _may_stop(self, job: Workload) -> bool:
        least = job.request.min_runtime
        protected = job.started is not None and least > 0 and self._now < job.started + least
        return job.request.preemptible and not protected

    def _beyond(self, jobs: list[Workload], over: Milli) -> set[WorkloadId]:
        """The jobs that a project would lose, if it loses as much as it is over its guarantee."""
        if over <= 0:
            return set()
        found = set[WorkloadId]()
        left = {job.id: held_by(job.placement) for job in jobs}
        for job in self._elastic(jobs):
            for worker in reversed(job.placement[job.request.min_workers :]):
                amount = held_by((worker,))
                if 0 < amount <= over:
                    found.add(job.id)
                    left[job.id] -= amount
                    over -= amount
        rest = [job for job in jobs if left[job.id]]
        for job in rest:
            if left[job.id] <= over:
                found.add(job.id)
                over -= left[job.id]
                left[job.id] = 0
        if over > 0:
            found.update([job.id for job in rest if left[job.id]][:1])
        return found

    def _elastic(self, jobs: Iterable[Workload]) -> list[Workload]:
        """Those that would lose surplus workers, in order: the loss counts for each worker."""
        elastic = [job for job in jobs if len(job.placement) > job.request.min_workers and self._may_stop(job)]

        def rank(job: Workload) -> tuple[int, float, WorkloadId]:
            saved = job.checkpointed if job.checkpointed is not None else job.started
            lost = 0.0 if saved is None else max(0.0, self._now - saved)
            return job.request.priority, lost * held_by(job.placement[-1:]), job.id

        return sorted(elastic, key=rank)


NOBODY = StopOrder(Pool(), (), tuple, 0.0)
"""That of a pool in which nothing runs."""
