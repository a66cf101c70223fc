"""The rules hold in any pool, and incremental planning decides the same as planning from scratch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    ForeignUse,
    JobId,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Request,
    Settings,
    Shape,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Plan, Planner, Snapshot, SnapshotPlanner, decide
from scheduler.policy.play import carry_out
from tests.policy.holdings import held
from tests.policy.pools import NOW, busy, snapshots
from tests.policy.rules import RULES
from tests.policy.streams import NODE_CHANGES, Stream, events, leaves

many = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("pools", [snapshots(), busy()], ids=["odd", "busy"])
@settings(many, max_examples=200)
@given(st.data())
def test_the_rules_hold_in_any_pool(pools: st.SearchStrategy[Snapshot], data: st.DataObject) -> None:
    snapshot = data.draw(pools)
    plan = decide(snapshot)
    for rule in RULES:
        rule(snapshot, plan)


@many
@given(snapshots(plain=True))
def test_a_guarantee_is_met_within_one_reclaim(snapshot: Snapshot) -> None:
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
def test_an_incremental_planner_plans_like_a_new_one(snapshot: Snapshot, other: Snapshot, random: object) -> None:
    planner = Planner(snapshot.pool, snapshot.nodes)
    for workload in snapshot.workloads:
        planner.put(replace(workload, running=False, stopping=False, placement=(), started=None, checkpointed=None))
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
    st.lists(st.sampled_from(["again", "after", "other", "less", "later", "earlier"]), max_size=6),
)
def test_a_snapshot_planner_decides_like_a_new_one(snapshot: Snapshot, other: Snapshot, steps: list[str]) -> None:
    """Whatever changes from one snapshot to the next: nothing, what was decided, the whole pool, who is there, the
    time (also where a clock is set back). So does one that is told what has changed, and a plan stays as it is, also
    where it is read later."""
    follow, told = SnapshotPlanner(), SnapshotPlanner()
    first, begin = told(snapshot), snapshot
    _same(follow(snapshot), snapshot)
    for step in steps:
        before = {workload.id: workload for workload in snapshot.workloads}
        match step:
            case "after":
                snapshot = carry_out(snapshot, decide(snapshot))
            case "other":
                snapshot = replace(other, now=snapshot.now)
            case "less":
                snapshot = replace(snapshot, workloads=snapshot.workloads[1::2])
            case "later":
                snapshot = replace(snapshot, now=snapshot.now + 900.0)
            case "earlier":
                snapshot = replace(snapshot, now=snapshot.now - 900.0)
        _same(follow(snapshot), snapshot)
        now = {workload.id: workload for workload in snapshot.workloads}
        others = {id: now.get(id) for id in {**before, **now} if before.get(id) is not now.get(id)}
        _same(told(replace(snapshot, changed=others)), snapshot)
    _same(first, begin)


@many
@given(st.one_of(snapshots(most_jobs=8), busy()), st.data())
def test_a_snapshot_planner_handles_changed_nodes_like_a_new_one(snapshot: Snapshot, data: st.DataObject) -> None:
    """Whatever happens to nodes and jobs, in any order: cordoned, lost, back or new, used more or less by others."""
    if data.draw(st.booleans()):  # else nodes that come or leave make it begin anew
        projects = tuple(replace(project, quotas=()) for project in snapshot.pool.projects)
        snapshot = replace(snapshot, pool=replace(snapshot.pool, projects=projects))
    stream, follow = Stream(snapshot), SnapshotPlanner()
    for event in data.draw(events(leaves(snapshot), most=12, kinds=(*NODE_CHANGES, "job", "end", "gone"))):
        plan = follow(stream.snapshot)
        _same(plan, stream.snapshot)
        stream.carry_out(plan)
        stream.happens(event)
    _same(follow(stream.snapshot), stream.snapshot)


def _pool_of(*nodes: Node) -> Snapshot:
    running = Workload(
        JobId("here"),
        Request(ProjectName("p"), shape=Shape(1000)),
        0.0,
        running=True,
        started=0.0,
        placement=(WorkerPlacement(NodeName("n0"), (0,)),),
    )
    waiting = tuple(Workload(JobId(f"w{n}"), Request(ProjectName("p"), shape=Shape(8000)), 0.0) for n in range(100))
    return Snapshot(NOW, Pool(projects=(Project(ProjectName("p")),)), nodes, (running, *waiting))


@pytest.mark.parametrize(
    ("change", "read"),
    [
        (lambda node: replace(node, schedulable=False), 0),
        (lambda node: replace(node, foreign=ForeignUse(((3, 1000),), cpus=2000)), 0),
        (lambda node: replace(node, foreign=ForeignUse(unnumbered=2500)), 0),
        (lambda node: replace(node, labels={"rack": "r1"}), 1),
        (lambda node: None, 1),
    ],
    ids=["cordoned", "used by others", "used by others, unnumbered", "another rack", "gone"],
)
def test_a_changed_node_does_not_reset_the_planner(change: Callable[[Node], Node | None], read: int) -> None:
    """Only workloads on nodes that changed or left are read again."""
    first, second = Node(NodeName("n0"), 4, cpus=8000), Node(NodeName("n1"), 4)
    snapshot = _pool_of(first, second)
    follow = SnapshotPlanner()
    follow(snapshot)
    assert follow.read == 101
    changed = change(first)
    after = replace(snapshot, nodes=(changed, second) if changed else (second,))
    _same(follow(after), after)
    assert follow.read == read
    new = replace(after, nodes=(*after.nodes, Node(NodeName("n2"), 8)))
    plan = follow(new)
    _same(plan, new)
    assert follow.read == 0
    assert {worker.node for worker in plan.decisions[JobId("w0")].placement} == {"n2"}


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
