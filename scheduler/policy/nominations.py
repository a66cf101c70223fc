"""Workloads that an earlier plan nominated for places get them first, if these are still available.

These are newcomers that wait for victims to stop, and jobs that stop in some places to continue in others. A nomination
lapses if a limit or a guarantee forbids it, if its node is gone, or if its places are no longer in one required domain.
"""

from __future__ import annotations

from scheduler.model import Milli, WorkerPlacement
from scheduler.policy.demands import amount_of, beside
from scheduler.policy.plannerstate import PlannerState
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import QuotaState
from scheduler.policy.topology import NODE
from scheduler.policy.workloads import WorkloadState


def honour_nominations(planner: PlannerState) -> list[WorkloadState]:
    """Give nominated workloads their places, the oldest first; returns those that got them."""
    state = planner.state
    honoured = []
    for job in sorted(planner.nominations.values(), key=lambda job: job.urgency[3:]):
        workers = job.workload.nomination
        if not _together(planner, job, workers):
            continue
        if _may_have(state, job, workers) and state.take_places(workers, job.request):
            (state.move if job.releasing else state.settle)(job, workers)
            honoured.append(job)
    return honoured


def _together(planner: PlannerState, job: WorkloadState, workers: tuple[WorkerPlacement, ...]) -> bool:
    """Whether all are in one required domain of the topology; labels may have changed since."""
    level, nodes = job.request.require, planner.state.nodes.by_name
    bits = {nodes[worker.node].bit for worker in workers if worker.node in nodes}
    if level is None or level == NODE:
        return level is None or len(bits) <= 1
    return any(all(bit & domain for bit in bits) for domain in planner.topology.domains(level))


def _may_have(state: PoolState, job: WorkloadState, workers: tuple[WorkerPlacement, ...]) -> bool:
    """Whether limits and guarantees allow it; what the job itself releases is not in its own way."""
    project, amount = job.project, amount_of(workers)
    assert project is not None
    if project.over_limit(amount) or (not job.preemptible and project.over_guarantee(amount)):
        return False
    held = beside(job.request.demands_of(len(workers)))
    if project.over_limit_beside(held) or (not job.preemptible and project.over_guarantee_beside(held)):
        return False
    left = job.placement if job.releasing else ()
    for quota in [quota for step in project.path for quota in step.quotas]:
        asked = _under(state, quota, workers)
        if asked and quota.allocated - _under(state, quota, left) + asked > quota.limit:
            return False
    return True


def _under(state: PoolState, quota: QuotaState, workers: tuple[WorkerPlacement, ...]) -> Milli:
    """The amount of these workers that counts against a limit."""
    nodes = state.nodes.by_name
    return amount_of(tuple([w for w in workers if w.node in nodes and nodes[w.node].bit & quota.mask]))
