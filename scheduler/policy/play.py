"""Playing a plan: the snapshot as it is when every start and stop of the plan has gone through at once."""

from __future__ import annotations

from dataclasses import replace

from scheduler.model import Workload
from scheduler.policy.types import Action, Decision, Plan, Snapshot


def carry_out(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot after `plan`, at the same instant. Whoever was stopped is queued again and keeps its age."""
    workloads = (
        after(workload, plan.decisions[workload.id], snapshot.now)
        for workload in snapshot.workloads
        if not workload.stopping
    )
    return replace(snapshot, workloads=tuple(workloads))


def after(workload: Workload, decision: Decision, now: float) -> Workload:
    """One workload once its decision has been carried out."""
    match decision.action:
        case Action.START | Action.MOVE:
            return replace(workload, running=True, started=now, placement=decision.placement)
        case Action.GROW | Action.SHRINK:
            return replace(workload, placement=decision.placement)
        case Action.STOP:
            return replace(
                workload, running=False, started=None, checkpointed=None, placement=(), preempted=now
            )
        case Action.KEEP | Action.WAIT:
            return workload
