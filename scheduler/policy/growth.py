"""When a running job may be restarted with more workers.

Growing is optional, so it must not lose work: a job that has never saved its state would start from the beginning, and
one that has just started, or is about to end, would lose more time than it gains.

It grows on idle GPUs, and inside its project's guarantee on those that the project may reclaim.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import ProjectName, WorkerPlacement, WorkloadId
from scheduler.policy.demands import beside
from scheduler.policy.nodes import NOW
from scheduler.policy.partitions import Partition
from scheduler.policy.placement import Placer
from scheduler.policy.poolstate import PoolState
from scheduler.policy.preemptor import Preemptor
from scheduler.policy.projects import ProjectState
from scheduler.policy.queues import JobClassQueue, ProjectOrder, ProjectQueue
from scheduler.policy.reservation import Reservations
from scheduler.policy.sets import NO_NODES, NodeSet
from scheduler.policy.victims import SearchResult
from scheduler.policy.wakeup import Wakeup
from scheduler.policy.workloads import WorkloadState

NEVER = float("inf")


def may_grow_from(job: WorkloadState, interval: float, now: float) -> float:
    """The time from which a job may grow (`NEVER`: not known). A job that the same plan starts may grow at once.

    `interval` is how long an attempt runs at least before that; where it is 0 a job's restart costs nothing.
    """
    workload = job.workload
    if not workload.running or not interval:
        return now
    if workload.started is None or workload.checkpointed is None:
        return NEVER
    runtime = workload.request.expected_runtime
    if runtime is not None and now <= workload.started + runtime < now + interval:
        return NEVER  # a job that should have ended by now has no known end
    return max(workload.started + interval, job.protected_until)


class Growth:
    """Adds workers to elastic jobs, one at a time, on GPUs that no other job can use or that their project is
    guaranteed.

    `grown` are the jobs that got workers; `reclaimed` has each job with the evictions made for it.
    """

    def __init__(
        self,
        state: PoolState,
        placer: Placer,
        reservations: Reservations,
        preemptor: Preemptor,
        partitions: Iterable[Partition],
        wakeup: Wakeup,
    ) -> None:
        self.state = state
        self.placer = placer
        self.reservations = reservations
        self.preemptor = preemptor
        self.partitions = partitions
        self.wakeup = wakeup
        self.grown: dict[WorkloadId, WorkloadState] = {}
        self.reclaimed: list[tuple[WorkloadState, SearchResult]] = []
        self._victims: set[WorkloadId] = set()

    def grow(self, elastic: Iterable[WorkloadState], interval: float) -> None:
        """Grow the jobs that may grow now. If only the time is in the way of a job, plan again at that time."""
        classes: dict[ProjectState, list[JobClassQueue]] = {}
        too_early: list[tuple[float, WorkloadId, WorkloadState]] = []
        for job in elastic:
            missing = job.request.workers - len(job.placement)
            if job.project is None or job.releasing or missing <= 0 or not job.placement:
                continue
            earliest = may_grow_from(job, interval, self.wakeup.now)
            if earliest <= self.wakeup.now:
                growth = JobClassQueue(job.request, job.request.worker_amount, [job] * missing, grow=True)
                classes.setdefault(job.project, []).append(growth)
            elif earliest < NEVER:
                too_early.append((earliest, job.id, job))
        for partition in self.partitions:
            here = {
                project.name: ProjectQueue(project, growing)
                for project, growing in classes.items()
                if project.partition == partition.key
            }
            self._grow_in(here)
        for earliest, _, job in sorted(too_early):
            assert job.project is not None
            with self.state.trial():
                could = self._one_more(job, job.project)
            if could is not None:
                self.wakeup.note(earliest)
                break

    def _grow_in(self, queues: dict[ProjectName, ProjectQueue]) -> None:
        order = ProjectOrder(queues)
        while (queue := order.next()) is not None:
            jobs = queue.next
            assert jobs is not None
            job = jobs.first
            workers = None
            if job.id not in self._victims:
                workers = self._one_more(job, queue.project) or self._reclaim(job, queue.project, order)
            if workers:
                self.state.settle(job, workers)
                self.grown[job.id] = job
                queue.advance(jobs)
            else:
                queue.close(jobs)
            order.changed(queue.project)

    def _one_more(self, job: WorkloadState, project: ProjectState) -> list[WorkerPlacement] | None:
        """A free place for one more worker."""
        beside = self._beside(job, project)
        return self.placer.place(job.request, 1, NOW, beside) if beside else None

    def _reclaim(self, job: WorkloadState, project: ProjectState, order: ProjectOrder) -> list[WorkerPlacement] | None:
        """A place of a job that holds GPUs of the project's guarantee."""
        beside = self._beside(job, project)
        result = self.preemptor.find_worker(job, project, beside, self.grown) if beside else None
        if result is None:
            return None
        self.reclaimed.append((job, result))
        for eviction in result.evictions:
            assert eviction.job.project is not None
            self._victims.add(eviction.job.id)
            order.changed(eviction.job.project)
        return result.workers

    def _beside(self, job: WorkloadState, project: ProjectState) -> NodeSet:
        """The nodes on which one more worker may stand."""
        request = job.request
        if project.over_limit(request.worker_amount) or (
            not request.preemptible and project.over_guarantee(request.worker_amount)
        ):
            return NO_NODES
        if project.beside:
            more = beside((request.demand,))
            if project.over_limit_beside(more) or (not request.preemptible and project.over_guarantee_beside(more)):
                return NO_NODES
        over, nodes = project.nodes_at_limit(0), self.state.nodes.by_name
        if over and any(nodes[worker.node].bit & over for worker in job.placement):
            return NO_NODES  # it could not restart in its own places
        kept_from = project.nodes_at_limit(request.worker_amount)
        return (
            self.placer.beside(request, job.placement) & ~kept_from & ~self.reservations.kept_from_growing(job, project)
        )
