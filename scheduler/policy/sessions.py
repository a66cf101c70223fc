"""The build environment: a session gets its GPUs at once, inside its user's fixed quota, and keeps them.

An idle session may lend its GPUs. What must hold: only jobs that may be stopped use what it lends, and when it is used
again, it gets exactly these GPUs back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from scheduler.model import GpuKey, Milli, UserName, WorkerPlacement, WorkloadId
from scheduler.policy.blocking import Blocked, NoBuildGpu, OverBuildQuota
from scheduler.policy.blocking import blocked as because
from scheduler.policy.demands import amount_of
from scheduler.policy.eligibility import Recall
from scheduler.policy.evictions import Eviction
from scheduler.policy.nodes import LATER, NOW
from scheduler.policy.placement import Placer
from scheduler.policy.plannerstate import PlannerState
from scheduler.policy.poolstate import PoolState
from scheduler.policy.victims import Budget, VictimSearch
from scheduler.policy.workloads import WorkloadState, in_words


class Seated(NamedTuple):
    """Why sessions wait, which jobs on lent GPUs each session takes them back from, and which sessions get back what
    they lent."""

    blocked: dict[WorkloadId, Blocked]
    recalled: dict[WorkloadId, list[Eviction]]
    restored: list[WorkloadState]


def seat_sessions(planner: PlannerState, placer: Placer, now: float, budget: Budget) -> Seated:
    """Give every session that is used again what it lent, then every waiting session its GPUs, in the order of their
    requests."""
    state = planner.state
    lent = [job for job in planner.sessions.values() if job.workload.claim]
    seated = Seated({}, {}, [job for job in lent if job.workload.recalled])
    for job in seated.restored:
        seated.recalled[job.id] = _clear(state, job.workload.claim, now)
        _reserve(state, job.workload.claim)
    waiting = [job for job in planner.sessions.values() if not job.workload.running]
    if waiting:
        claims = [worker for job in lent for worker in job.workload.claim]
        with state.nodes.without(claims):
            _seat_waiting(planner, placer, waiting, seated, now, budget)
    return seated


def _seat_waiting(
    planner: PlannerState,
    placer: Placer,
    waiting: list[WorkloadState],
    seated: Seated,
    now: float,
    budget: Budget,
) -> None:
    pool = planner.pool
    quotas = {user.name: user.build_quota for user in pool.users}
    held: dict[UserName, Milli] = {}
    for job in planner.sessions.values():
        user = job.workload.request.user or UserName("")
        held[user] = held.get(user, 0) + job.amount + amount_of(job.workload.claim)
    for job in sorted(waiting, key=lambda job: (job.workload.submitted, job.id)):
        user = job.workload.request.user or UserName("")
        given = job.workload.request.build_quota
        quota = quotas.get(user, pool.default_build_quota) if given is None else given
        has, asked = held.get(user, 0), job.request.gang_amount
        if has + asked > quota:
            seated.blocked[job.id] = because(OverBuildQuota(user, quota, has, asked))
            continue
        workers = _seat(job, placer)
        if workers is None and pool.settings.lending:
            result = VictimSearch(planner.state, placer, Recall(planner.state, job, now), budget).search()
            if result is not None:
                workers, seated.recalled[job.id] = result.workers, result.evictions
        if workers is None:
            free = planner.state.nodes.free_gpus(job.request.eligible)
            seated.blocked[job.id] = because(NoBuildGpu(in_words(job.request), asked, free))
            continue
        planner.state.settle(job, workers)
        held[user] = has + job.amount


def _seat(job: WorkloadState, placer: Placer) -> list[WorkerPlacement] | None:
    request = job.request
    return placer.place(request, request.gang_size, NOW) or placer.place(request, request.gang_size, LATER)


# -- what idle sessions lend --------------------------------------------------------------------------------


def _clear(state: PoolState, claim: Iterable[WorkerPlacement], now: float) -> list[Eviction]:
    """Stop the jobs on these GPUs."""
    wanted = _gpus(claim)
    nodes = [state.nodes.by_name[name] for name in {node for node, _ in wanted} if name in state.nodes.by_name]
    there = {job.id: job for node in nodes for job in state.standing[node.index].values() if job.project is not None}
    evictions = []
    for job in sorted(there.values(), key=lambda job: job.id):
        if not job.releasing and not _gpus(job.placement).isdisjoint(wanted):
            saved = job.saved
            loss = 0.0 if saved is None else max(0.0, now - saved) * job.amount
            evictions.append(Eviction(job, loss, job.amount))
            state.release(job)
    return evictions


def _reserve(state: PoolState, claim: Iterable[WorkerPlacement]) -> None:
    """Take what is free of these GPUs."""
    for worker in claim:
        node = state.nodes.by_name.get(worker.node)
        for gpu in worker.gpus if node is not None else ():
            if node is not None and (share := min(worker.share, node.share_free(gpu, LATER))) > 0:
                state.keep(WorkerPlacement(worker.node, (gpu,), share))


def _gpus(placement: Iterable[WorkerPlacement]) -> set[GpuKey]:
    return {GpuKey((worker.node, gpu)) for worker in placement for gpu in worker.gpus}
