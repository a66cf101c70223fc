"""Simulating a plan: the snapshot after every start and stop of the plan, at once or in steps."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from scheduler.model import Workload, WorkloadId
from scheduler.policy.stoporder import StopOrder
from scheduler.policy.types import Action, Decision, Plan, Snapshot


def carry_out(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot after `plan`, at the same instant. A stopped job is queued again and keeps its age.

    A workload that was stopping is gone, or continues in the places that it is nominated for.
    """
    workloads = (
        after(workload, plan.decisions[workload.id], snapshot.now)
        for workload in snapshot.workloads
        if not workload.stopping or plan.decisions[workload.id].placement
    )
    return replace(snapshot, workloads=tuple(workloads))


def begin(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot when those that `plan` stops, moves or resizes have been told so and have not ended yet, as the
    controller carries a plan out."""
    workloads = [
        _told(each, plan.decisions[each.id], snapshot.now) if each.nomination or each.id in plan.changes else each
        for each in snapshot.workloads
    ]
    return replace(snapshot, workloads=tuple(workloads))


def _told(workload: Workload, decision: Decision, now: float) -> Workload:
    match decision.action:
        case Action.START if decision.after:
            return workload if workload.claim else replace(workload, nomination=decision.placement)
        case Action.START:
            return _begun(workload, decision, now)
        case Action.STOP:
            return replace(workload, stopping=True, nomination=())
        case Action.MOVE | Action.GROW | Action.SHRINK:
            return replace(workload, stopping=True, nomination=decision.placement)
        case Action.KEEP | Action.WAIT:
            kept = decision.placement[: len(workload.nomination)] == workload.nomination
            return workload if kept else replace(workload, nomination=())


def release(snapshot: Snapshot, gone: Container[WorkloadId]) -> Snapshot:
    """The snapshot when all that were stopping have ended: those that are `gone` leave, the others are queued again."""
    workloads = [
        _ended(each, snapshot.now) if each.stopping else each
        for each in snapshot.workloads
        if not each.stopping or each.id not in gone
    ]
    return replace(snapshot, workloads=tuple(workloads))


def _ended(workload: Workload, now: float) -> Workload:
    ended = after(workload, Decision(Action.STOP), now)
    if workload.nomination:  # which is no preemption
        ended = replace(ended, preempted=workload.preempted, preemptions=workload.preemptions)
    return replace(ended, stopping=False)


def stop_order(snapshot: Snapshot, concerned: Iterable[Workload], changes: Mapping[WorkloadId, Decision]) -> StopOrder:
    """The jobs that would be stopped next for other projects, once these decisions are carried out. `concerned` are the
    workloads that run and those that the decisions change."""
    now = snapshot.now  # the order outlives the snapshot

    def workloads() -> Iterator[Workload]:
        for workload in concerned:
            decision = changes.get(workload.id)
            if decision is None:
                yield workload
            elif decision.action is not Action.START or not decision.after:
                yield after(workload, decision, now)

    return StopOrder(snapshot.pool, snapshot.nodes, workloads, now)


def after(workload: Workload, decision: Decision, now: float) -> Workload:
    """One workload once its decision has been carried out."""
    match decision.action:
        case Action.START | Action.MOVE:
            return _begun(workload, decision, now)
        case Action.GROW | Action.SHRINK:
            return replace(workload, placement=decision.placement)
        case Action.STOP:
            return replace(
                workload,
                running=False,
                started=None,
                checkpointed=None,
                placement=(),
                preempted=now,
                preemptions=workload.preemptions + 1,
                served=workload.served_until(now),
            )
        case Action.KEEP if workload.stopping and decision.placement:
            return _begun(workload, decision, now)
        case Action.KEEP | Action.WAIT:
            return workload


def _begun(workload: Workload, decision: Decision, now: float) -> Workload:
    return replace(
        workload,
        running=True,
        stopping=False,
        started=now,
        placement=decision.placement,
        nomination=(),
        served=workload.served_until(now),
        claim=(),
        recalled=False,
    )
