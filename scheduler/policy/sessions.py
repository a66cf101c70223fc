"""The build environment: a session gets its GPUs at once, inside its user's fixed quota, and keeps them."""

from __future__ import annotations

from scheduler.model import Milli, Pool
from scheduler.policy import reasons
from scheduler.policy.intake import Intake
from scheduler.policy.placement import Placer
from scheduler.policy.reasons import Blocked


def seat_sessions(intake: Intake, placer: Placer, pool: Pool) -> dict[str, Blocked]:
    """Give every waiting session its GPUs, the first that asked first; returns why the others wait."""
    quotas = {user.name: user.build_quota for user in pool.users}
    held: dict[str, Milli] = {}
    for work in intake.sessions:
        user = work.workload.request.user or ""
        held[user] = held.get(user, 0) + work.amount
    blocked: dict[str, Blocked] = {}
    for work in intake.sessions_waiting:
        user = work.workload.request.user or ""
        quota, has, asked = quotas.get(user, pool.default_build_quota), held.get(user, 0), work.ask.least
        if has + asked > quota:
            blocked[work.id] = reasons.over_quota(user, quota, has, asked)
            continue
        workers = placer.place(work.ask, work.ask.gang, False) or placer.place(work.ask, work.ask.gang, True)
        if workers is None:
            blocked[work.id] = reasons.no_build_gpu(work.ask, placer.free(work.ask.qualifies))
            continue
        intake.state.settle(work, workers)
        held[user] = has + work.amount
    return blocked
