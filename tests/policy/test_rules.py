"""The rules that always hold, over random pools: whatever the pool, no plan breaks one of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import Environment, Milli, Settings, Shape, WorkerPlacement, Workload
from scheduler.policy import Action, Follower, Plan, Planner, Snapshot, decide
from scheduler.policy.play import carry_out
from tests.policy.pools import NOW, Floor, snapshots
from tests.policy.rules import within

many = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
MORE = (Action.START, Action.GROW, Action.MOVE)


def amount(workload: Workload) -> Milli:
    return sum(len(worker.gpus) * worker.share for worker in workload.placement)


def held(snapshot: Snapshot, project: str) -> Milli:
    """What the jobs of a project and of those below it hold (those on their way out left aside)."""
    names = {project}
    for _ in snapshot.pool.projects:
        names |= {p.name for p in snapshot.pool.projects if p.parent in names}
    return sum(
        amount(w)
        for w in snapshot.workloads
        if w.request.project in names
        and w.running
        and not w.stopping
        and w.request.environment is Environment.TRAIN
    )


@many
@given(snapshots())
def test_every_workload_has_a_decision_with_a_reason(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    assert list(plan.decisions) == [w.id for w in snapshot.workloads]
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        assert decision.reason
        assert (decision.action is Action.WAIT) == (decision.blocked_by is not None)
        assert workload.running == (decision.action not in (Action.START, Action.WAIT))


def standing(
    workload: Workload, placement: tuple[WorkerPlacement, ...]
) -> list[tuple[WorkerPlacement, Shape]]:
    """Each worker with its shape."""
    return list(zip(placement, workload.request.shapes, strict=False))


@many
@given(snapshots())
def test_no_gpu_is_given_twice(snapshot: Snapshot) -> None:
    """Neither once the plan is carried out, nor at once by those who wait for nobody."""
    plan = decide(snapshot)
    at_once, in_the_end = Floor(snapshot.nodes), Floor(snapshot.nodes)
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        grown = decision.action in MORE and not decision.after
        for worker, shape in standing(workload, decision.placement if grown else workload.placement):
            at_once.take(worker, shape)
        for worker, shape in standing(workload, decision.placement):
            in_the_end.take(worker, shape)
    assert in_the_end.overfull() == []
    assert at_once.overfull() == []


@many
@given(snapshots())
def test_a_gang_is_whole_or_not_there(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        if decision.action in (*MORE, Action.SHRINK):
            assert request.min_workers <= len(decision.placement) <= request.workers
        elif decision.action in (Action.WAIT, Action.STOP):
            assert decision.placement == ()


@many
@given(snapshots())
def test_workers_stand_where_they_may(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    nodes = {node.name: node for node in snapshot.nodes}
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        if decision.action is not Action.START:
            continue
        stands = [nodes[worker.node] for worker in decision.placement]
        own = "build" if request.environment is Environment.BUILD else "train"
        lent = snapshot.pool.settings.lending and request.preemptible
        assert all(node.schedulable and (node.node_pool == own or lent) for node in stands)
        assert all(request.gpu_types is None or node.gpu_type in request.gpu_types for node in stands)
        for (worker, shape), node in zip(standing(workload, decision.placement), stands, strict=True):
            if shape.gpu_memory:
                assert worker.share * (node.gpu_memory or 0) >= shape.gpu_memory * 1000
            else:
                assert len(worker.gpus) * worker.share == shape.gpus
        if request.require == "node":
            assert len({worker.node for worker in decision.placement}) == 1
        if request.require == "rack":
            assert len({(n.labels["block"], n.labels["rack"]) for n in stands}) == 1


@many
@given(snapshots())
def test_a_session_is_never_stopped_and_never_above_its_quota(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    quotas = {user.name: user.build_quota for user in snapshot.pool.users}
    sessions = [w for w in snapshot.workloads if w.request.environment is Environment.BUILD]
    for user in {w.request.user for w in sessions}:
        quota = quotas.get(user or "", snapshot.pool.default_build_quota)
        before = sum(amount(w) for w in sessions if w.request.user == user)
        after = sum(
            amount(replace(w, placement=plan.decisions[w.id].placement))
            for w in sessions
            if w.request.user == user
        )
        assert after <= max(quota, before)
    assert {plan.decisions[w.id].action for w in sessions} <= {Action.START, Action.KEEP, Action.WAIT}
    assert all(plan.decisions[w.id].action is Action.KEEP for w in sessions if w.running)


@many
@given(snapshots())
def test_limits_and_guarantees_hold_down_the_tree(snapshot: Snapshot) -> None:
    after = carry_out(snapshot, decide(snapshot))
    firm = replace(after, workloads=tuple(w for w in after.workloads if not w.request.preemptible))
    firm_before = replace(
        snapshot, workloads=tuple(w for w in snapshot.workloads if not w.request.preemptible)
    )
    for project in snapshot.pool.projects:
        if project.limit is not None:
            assert held(after, project.name) <= max(project.limit, held(snapshot, project.name))
        if project.guaranteed is not None:
            assert held(firm, project.name) <= max(project.guaranteed, held(firm_before, project.name))
        for quota in project.quotas:
            nodes = {node.name for node in snapshot.nodes if quota.covers(node)}
            before, now = (
                held(within(snapshot, nodes), project.name),
                held(within(after, nodes), project.name),
            )
            assert quota.limit is None or now <= max(quota.limit, before)


@many
@given(snapshots())
def test_nobody_is_stopped_for_nothing(snapshot: Snapshot) -> None:
    """Who is stopped or shrinks is awaited by somebody who starts; who may not be stopped is not."""
    plan = decide(snapshot)
    awaited = {id for decision in plan.decisions.values() for id in decision.after}
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        if decision.action in (Action.STOP, Action.SHRINK):
            assert workload.id in awaited
            assert workload.request.preemptible
            assert (
                workload.started or 0
            ) + workload.request.min_runtime <= NOW or snapshot.pool.settings.lending
    for decision in plan.decisions.values():
        for id in decision.after:
            other = plan.decisions[id]
            stopping = any(w.id == id and w.stopping for w in snapshot.workloads)
            assert stopping or other.action in (Action.STOP, Action.SHRINK, Action.MOVE)


@many
@given(snapshots())
def test_nothing_inside_a_guarantee_is_lost_to_another_project(snapshot: Snapshot) -> None:
    """Every project loses jobs only while it holds more than its guarantee (the last may straddle it)."""
    plan = decide(snapshot)
    by_id = {w.id: w for w in snapshot.workloads}
    lost: dict[str, list[Milli]] = {}
    for newcomer, decision in plan.decisions.items():
        for id in decision.after:
            victim = by_id[id]
            if plan.decisions[id].action is not Action.STOP:
                continue
            same = victim.request.project == by_id[newcomer].request.project
            if same or by_id[newcomer].request.environment is Environment.BUILD:
                return  # preempted by its own project, or a lent GPU that goes back: another rule's matter
            lost.setdefault(victim.request.project, []).append(amount(victim))
    for project in snapshot.pool.projects:
        losses = lost.get(project.name)
        if losses:
            assert project.guaranteed is not None
            unique = {w.id: amount(w) for w in snapshot.workloads if w.request.project == project.name}
            taken = [unique[id] for id in unique if plan.decisions[id].action is Action.STOP]
            assert held(snapshot, project.name) - (sum(taken) - max(taken)) > project.guaranteed


@many
@given(snapshots())
def test_no_gpu_is_idle_while_a_job_that_fits_waits(snapshot: Snapshot) -> None:
    pool = replace(snapshot.pool, settings=replace(snapshot.pool.settings, reservations=0))
    snapshot = replace(snapshot, pool=pool)
    plan = decide(snapshot)
    floor = Floor(snapshot.nodes)
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        stands = decision.placement if decision.action in MORE else workload.placement
        left = workload.placement if decision.action is Action.MOVE else ()
        for worker, shape in (*standing(workload, stands), *standing(workload, left)):
            floor.take(worker, shape)
    after = carry_out(snapshot, plan)
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        if decision.action is not Action.WAIT or request.require or request.environment is Environment.BUILD:
            continue
        placement = floor.stand(request, request.min_workers)
        if placement is None:
            continue
        for worker in placement:
            floor.gpus[worker.node] = [
                left + worker.share * (gpu in worker.gpus) for gpu, left in enumerate(floor.gpus[worker.node])
            ]
        assert decision.blocked_by is not None
        assert decision.blocked_by["kind"] in ("limit", "guarantee"), (workload.id, decision, after)


@many
@given(snapshots(plain=True))
def test_a_guarantee_is_had_within_one_reclaim(snapshot: Snapshot) -> None:
    """Where guarantees add up to no more than there is, and nothing holds what can't be taken back."""
    capacity = sum(n.gpus for n in snapshot.nodes if n.node_pool == "train" and n.schedulable) * 1000
    if sum(project.guaranteed or 0 for project in snapshot.pool.projects) > capacity:
        return
    pool = replace(snapshot.pool, settings=Settings(reclaim=snapshot.pool.settings.reclaim))
    work = tuple(w for w in snapshot.workloads if not w.stopping)
    snapshot = replace(snapshot, pool=pool, workloads=work)
    after = carry_out(snapshot, decide(snapshot))
    for project in pool.projects:
        demand = 1000 * sum(w.request.project == project.name for w in work)
        assert held(after, project.name) >= min((project.guaranteed or 0) // 1000 * 1000, demand)


@many
@given(snapshots(), st.randoms(use_true_random=False))
def test_the_same_snapshot_gives_the_same_plan(snapshot: Snapshot, random: object) -> None:
    plan = decide(snapshot)
    again = decide(snapshot)
    assert dict(plan.decisions) == dict(again.decisions)
    workloads = list(snapshot.workloads)
    random.shuffle(workloads)  # type: ignore[attr-defined]
    shuffled = decide(replace(snapshot, workloads=tuple(workloads)))
    assert dict(plan.decisions) == dict(shuffled.decisions)
    assert plan.projects == shuffled.projects == again.projects
    assert plan.again_at == shuffled.again_at


@many
@given(snapshots(), snapshots(), st.randoms(use_true_random=False))
def test_a_planner_that_is_told_of_changes_plans_as_if_it_began_anew(
    snapshot: Snapshot, other: Snapshot, random: object
) -> None:
    planner = Planner(snapshot.pool, snapshot.nodes)
    for workload in snapshot.workloads:
        planner.put(
            replace(workload, running=False, stopping=False, placement=(), started=None, checkpointed=None)
        )
    _same(planner.plan(snapshot.now), _waiting(snapshot))
    workloads = list(snapshot.workloads)
    random.shuffle(workloads)  # type: ignore[attr-defined]
    for workload in workloads:
        planner.put(workload)
    _same(planner.plan(snapshot.now), snapshot)
    after = carry_out(snapshot, decide(snapshot))
    left = {w.id for w in after.workloads}
    for workload in snapshot.workloads:
        if workload.id not in left:
            planner.drop(workload.id)
    for workload in after.workloads:
        planner.put(workload)
    _same(planner.plan(after.now), after)
    _same(planner.plan(after.now), after)


@many
@given(
    snapshots(),
    snapshots(),
    st.lists(st.sampled_from(["again", "after", "other", "less", "later"]), max_size=6),
)
def test_a_follower_decides_as_if_it_began_anew(
    snapshot: Snapshot, other: Snapshot, steps: list[str]
) -> None:
    """Whatever changes from one snapshot to the next: nothing, what was decided, the whole pool, who is there, the time."""
    follow = Follower()
    _same(follow(snapshot), snapshot)
    for step in steps:
        match step:
            case "after":
                snapshot = carry_out(snapshot, decide(snapshot))
            case "other":
                snapshot = other
            case "less":
                snapshot = replace(snapshot, workloads=snapshot.workloads[1::2])
            case "later":
                snapshot = replace(snapshot, now=snapshot.now + 900.0)
        _same(follow(snapshot), snapshot)


def _waiting(snapshot: Snapshot) -> Snapshot:
    return replace(
        snapshot,
        workloads=tuple(
            replace(w, running=False, stopping=False, placement=(), started=None, checkpointed=None)
            for w in snapshot.workloads
        ),
    )


def _same(plan: Plan, snapshot: Snapshot) -> None:
    anew = decide(snapshot)
    assert dict(plan.decisions) == dict(anew.decisions)
    assert plan.projects == anew.projects
    assert plan.again_at == anew.again_at


@many
@given(snapshots())
def test_no_two_jobs_take_turns(snapshot: Snapshot) -> None:
    """Carried out again and again at one instant, plans come to rest."""
    stops = 0
    for _ in range(3 * len(snapshot.workloads) + 3):
        plan = decide(snapshot)
        if not plan.changes:
            break
        stops += sum(decision.action is Action.STOP for decision in plan.changes.values())
        snapshot = carry_out(snapshot, plan)
    else:
        pytest.fail(f"no rest after {stops} stops")
