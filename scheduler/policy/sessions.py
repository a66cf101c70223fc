"""The build environment: a session gets its GPUs at once, inside its user's fixed quota, and keeps them."""

from __future__ import annotations

from scheduler.model import Milli, UserName, WorkerPlacement, WorkloadId
from scheduler.policy.blocking import Blocked, NoBuildGpu, OverBuildQuota
from scheduler.policy.blocking import blocked as because
from scheduler.policy.eligibility import Recall
from scheduler.policy.evictions import Eviction
from scheduler.policy.nodes import LATER, NOW
from scheduler.policy.placement import Placer
from scheduler.policy.plannerstate import PlannerState
from scheduler.policy.victims import Budget, VictimSearch
from scheduler.policy.workloads import WorkloadState, in_words


def seat_sessions(
    planner: PlannerState, placer: Placer, now: float, budget: Budget
) -> tuple[dict[WorkloadId, Blocked], dict[WorkloadId, list[Eviction]]]:
    """Give every waiting session its GPUs, in the order of their requests.

    Returns why the others wait, and which jobs on lent GPUs each session takes them back from.
    """
    pool = planner.pool
    quotas = {user.name: user.build_quota for user in pool.users}
    held: dict[UserName, Milli] = {}
    for job in planner.sessions.values():
        user = job.workload.request.user or UserName("")
        held[user] = held.get(user, 0) + job.amount
    blocked: dict[WorkloadId, Blocked] = {}
    recalled: dict[WorkloadId, list[Eviction]] = {}
    waiting = [job for job in planner.sessions.values() if not job.workload.running]
    for job in sorted(waiting, key=lambda job: (job.workload.submitted, job.id)):
        user = job.workload.request.user or UserName("")
        given = job.workload.request.build_quota
        quota = quotas.get(user, pool.default_build_quota) if given is None else given
        has, asked = held.get(user, 0), job.request.gang_amount
        if has + asked > quota:
            blocked[job.id] = because(OverBuildQuota(user, quota, has, asked))
            continue
        workers = _seat(job, placer)
        if workers is None and pool.settings.lending:
            result = VictimSearch(planner.state, placer, Recall(planner.state, job, now), budget).search()
            if result is not None:
                workers, recalled[job.id] = result.workers, result.evictions
        if workers is None:
            free = planner.state.nodes.free_gpus(job.request.eligible)
            blocked[job.id] = because(NoBuildGpu(in_words(job.request), asked, free))
            continue
        planner.state.settle(job, workers)
        held[user] = has + job.amount
    return blocked, recalled


def _seat(job: WorkloadState, placer: Placer) -> list[WorkerPlacement] | None:
    request = job.request
    return placer.place(request, request.gang_size, NOW) or placer.place(request, request.gang_size, LATER)
