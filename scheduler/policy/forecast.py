"""When the jobs that wait will start, found by playing the policy forward.

Jobs end when their declared (or learned) run time is over; of those without one nobody knows, so what waits for them has
no estimate. Every plan is carried out at once. Nobody new comes, so an estimate is never a promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scheduler.model import Workload
from scheduler.policy.planner import Planner
from scheduler.policy.play import carry_out
from scheduler.policy.types import Action, Snapshot

STEPS = 500
"""How many plans are made at the most."""


def forecast(snapshot: Snapshot) -> Mapping[str, float]:
    """The first start of every workload that waits, as far as it can be known."""
    planner = Planner(snapshot.pool, snapshot.nodes, snapshot.workloads)
    starts: dict[str, float] = {}
    for _ in range(STEPS):
        plan = planner.plan(snapshot.now)
        for id, decision in plan.changes.items():
            if decision.action is Action.START:
                starts.setdefault(id, snapshot.now)
        before = {workload.id: workload for workload in snapshot.workloads}
        if plan.changes or any(workload.stopping for workload in snapshot.workloads):
            snapshot = carry_out(snapshot, plan)
        else:
            ends = [end for workload in snapshot.workloads if (end := _end(workload)) is not None]
            if not ends or all(workload.running for workload in snapshot.workloads):
                break
            now = max(snapshot.now, min(ends))
            left = tuple([w for w in snapshot.workloads if (end := _end(w)) is None or end > now])
            snapshot = replace(snapshot, now=now, workloads=left)
        _tell(planner, before, snapshot)
    return starts


def _end(workload: Workload) -> float | None:
    """When a running job is expected to end."""
    runtime = workload.request.expected_runtime
    if not workload.running or workload.started is None or runtime is None:
        return None
    return workload.started + runtime


def _tell(planner: Planner, before: Mapping[str, Workload], snapshot: Snapshot) -> None:
    after = {workload.id: workload for workload in snapshot.workloads}
    for id in before.keys() - after.keys():
        planner.drop(id)
    for id, workload in after.items():
        if before.get(id) is not workload:
            planner.put(workload)
