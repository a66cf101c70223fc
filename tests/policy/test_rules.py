"""The rules hold in any pool, odd or busy; and who follows a pool as it changes decides as if it began anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import Settings
from scheduler.policy import Plan, Planner, Snapshot, SnapshotPlanner, decide
from scheduler.policy.play import carry_out
from tests.policy.holdings import held
from tests.policy.pools import busy, snapshots
from tests.policy.rules import RULES

many = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("pools", [snapshots(), busy()], ids=["odd", "busy"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@many
@given(st.data())
def test_in_any_pool(
    rule: Callable[[Snapshot, Plan], None], pools: st.SearchStrategy[Snapshot], data: st.DataObject
) -> None:
    snapshot = data.draw(pools)
    rule(snapshot, decide(snapshot))


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
@given(snapshots(), snapshots(), st.randoms(use_true_random=False))
def test_a_planner_that_is_told_of_changes_plans_as_if_it_began_anew(
    snapshot: Snapshot, other: Snapshot, random: object
) -> None:
    planner = Planner(snapshot.pool, snapshot.nodes)
    for workload in snapshot.workloads:
        planner.put(
            replace(workload, running=False, stopping=False, placement=(), started=None, checkpointed=None)
        )
    _same(planner.plan(snapshot.now, snapshot.usage), _waiting(snapshot))
    workloads = list(snapshot.workloads)
    random.shuffle(workloads)  # type: ignore[attr-defined]
    for workload in workloads:
        planner.put(workload)
    _same(planner.plan(snapshot.now, snapshot.usage), snapshot)
    after = carry_out(snapshot, decide(snapshot))
    left = {w.id for w in after.workloads}
    for workload in snapshot.workloads:
        if workload.id not in left:
            planner.drop(workload.id)
    for workload in after.workloads:
        planner.put(workload)
    _same(planner.plan(after.now, after.usage), after)
    _same(planner.plan(after.now, after.usage), after)


@many
@given(
    snapshots(),
    snapshots(),
    st.lists(st.sampled_from(["again", "after", "other", "less", "later"]), max_size=6),
)
def test_a_snapshot_planner_decides_as_if_it_began_anew(
    snapshot: Snapshot, other: Snapshot, steps: list[str]
) -> None:
    """Whatever changes from one snapshot to the next: nothing, what was decided, the whole pool, who is there, the time."""
    follow = SnapshotPlanner()
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
