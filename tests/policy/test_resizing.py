"""Plans carried out as in production, where victims take time to end: nominations hold, and jobs do not alternate."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scheduler.model import Environment, Request, Workload
from scheduler.policy import Action, Decision, Plan, Snapshot, decide
from tests.policy.holdings import bounds, held, held_beside, within
from tests.policy.pools import Draw, Floor, snapshots
from tests.policy.test_elastic import full_pools

many = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def jobs_only(draw: Draw) -> Snapshot:
    """A pool of jobs (sessions precede all nominations), many of them elastic, within all limits."""
    snapshot = draw(snapshots())
    work = []
    for workload in snapshot.workloads:
        if workload.request.environment is Environment.TRAIN:
            work.append(replace(workload, request=_elastic(draw, workload), nomination=()))
    pool = replace(snapshot.pool, settings=replace(snapshot.pool.settings, lending=False))
    snapshot = replace(snapshot, pool=pool, workloads=tuple(work))
    staying = replace(snapshot, workloads=tuple(replace(w, stopping=False) for w in work))
    for project in pool.projects:
        assume(project.limit is None or held(staying, project.name) <= project.limit)
        for resource, its in bounds(project).items():
            assume(its.limit is None or held_beside(staying, project.name)[resource] <= its.limit)
        for quota in project.quotas:
            nodes = {node.name for node in snapshot.nodes if quota.covers(node)}
            assume(quota.limit is None or held(within(staying, nodes), project.name) <= quota.limit)
    return snapshot


def _elastic(draw: Draw, workload: Workload) -> Request:
    request = workload.request
    if request.groups:
        return request
    if draw(st.booleans()):
        return request
    return replace(request, workers=max(4, request.workers), min_workers=draw(st.integers(1, request.min_workers)))


def carried_out(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """As the controller does: a nomination for every stopped job that continues, and for every start that waits."""
    work = [_next(workload, plan.decisions[workload.id], snapshot.now) for workload in snapshot.workloads]
    return replace(snapshot, workloads=tuple(work))


def _next(workload: Workload, decision: Decision, now: float) -> Workload:
    match decision.action:
        case Action.START if not decision.after:
            return replace(workload, running=True, started=now, placement=decision.placement, nomination=())
        case Action.GROW | Action.SHRINK | Action.MOVE:
            return replace(workload, stopping=True, nomination=decision.placement)
        case Action.STOP:
            return replace(workload, stopping=True)
        case _ if not workload.running or workload.stopping:
            return replace(workload, nomination=decision.placement)
        case _:
            return workload


def gone(workload: Workload, now: float) -> Workload:
    """Its last worker has ended."""
    preempted = workload.preempted if workload.nomination else now
    return replace(
        workload, running=False, stopping=False, started=None, checkpointed=None, placement=(), preempted=preempted
    )  # fmt: skip


def check(snapshot: Snapshot) -> None:
    """No two workloads, stopping or not, share GPUs."""
    floor = Floor(snapshot.nodes)
    for workload in snapshot.workloads:
        for worker, shape in zip(workload.placement, workload.request.shapes, strict=False):
            floor.take(worker, shape)
    assert floor.overfull() == []


@many
@given(full_pools() | jobs_only(), st.lists(st.integers(1, 400), min_size=8, max_size=8), st.data())
def test_nominations_hold_while_other_jobs_are_stopping(
    snapshot: Snapshot, steps: list[int], data: st.DataObject
) -> None:
    for step in steps:
        nominations = {w.id: w.nomination for w in snapshot.workloads if w.nomination}
        plan = decide(snapshot)
        for id, nomination in nominations.items():
            assert plan.decisions[id].placement[: len(nomination)] == nomination, f"{id} has lost its places"
        snapshot = carried_out(snapshot, plan)
        check(snapshot)
        now = snapshot.now + step
        stop = {w.id for w in snapshot.workloads if w.stopping and data.draw(st.booleans())}
        end = {w.id for w in snapshot.workloads if w.running and data.draw(st.integers(0, 9)) == 0} - stop
        work = tuple(gone(w, now) if w.id in stop else w for w in snapshot.workloads if w.id not in end)
        snapshot = replace(snapshot, now=now, workloads=work)


@many
@given(full_pools() | jobs_only(), st.lists(st.integers(1, 400), min_size=40, max_size=40))
def test_resizing_does_not_oscillate(snapshot: Snapshot, steps: list[int]) -> None:
    """Among the same jobs nobody grows again and again into what it then gives back."""
    turns: Counter[str] = Counter()
    grown: set[str] = set()
    for step in steps:
        plan = decide(snapshot)
        shrunk = {id for id, decision in plan.changes.items() if decision.action is Action.SHRINK}
        turns.update(shrunk & grown)
        grown -= shrunk
        grown |= {id for id, decision in plan.changes.items() if decision.action is Action.GROW}
        after = carried_out(snapshot, plan)
        now = snapshot.now + step
        work = tuple(gone(w, now) if w.stopping else w for w in after.workloads)
        snapshot = replace(snapshot, now=now, workloads=work)
    assert all(times == 1 for times in turns.values()), turns
    assert decide(snapshot).changes == {}
