"""Partitions are shared out separately: each behaves as a separate pool, and all rules hold in each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    TRAIN_POOL,
    Bounds,
    Environment,
    GpuType,
    JobId,
    Node,
    NodeName,
    NodePool,
    NodePoolName,
    Pool,
    Project,
    ProjectName,
    Quota,
    Request,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Action, Snapshot, decide
from scheduler.policy.play import carry_out
from scheduler.policy.quotas import REMAINDER, guarantees, partition_keys, partition_of
from tests.policy import rules
from tests.policy.holdings import amount, held, standing, within
from tests.policy.pools import NOW, Draw, Floor, snapshots

A100 = GpuType("A100")
H100 = GpuType("H100")

many = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
FAST = NodePoolName("fast")


# -- each partition behaves as a separate pool -------------------------------------------------------------------


def only_training(snapshot: Snapshot) -> Snapshot:
    """Without the build environment and reservations: those are counted over the whole pool."""
    jobs = [w for w in snapshot.workloads if w.request.environment is Environment.TRAIN]
    return replace(
        snapshot,
        pool=replace(snapshot.pool, settings=replace(snapshot.pool.settings, lending=False, reservations=0), users=()),
        nodes=tuple(node for node in snapshot.nodes if node.node_pool == "train"),
        workloads=tuple(replace(w, request=replace(w.request, node_pools=(TRAIN_POOL,))) for w in jobs),
    )


def only_guaranteed(project: Project) -> Project:
    """Without limits and quotas, which hold for the whole pool."""
    return replace(project, limit=None, quotas=(), cpus=Bounds(), memory=Bounds())


def short_of_gpus_alone(snapshot: Snapshot) -> Snapshot:
    """With ample CPUs and memory: separate rules reclaim them from projects that exceed their share."""
    nodes = tuple(replace(node, cpus=1_000_000, memory=1_000_000) for node in snapshot.nodes)
    projects = tuple(replace(project, cpus=Bounds(), memory=Bounds()) for project in snapshot.pool.projects)
    return replace(snapshot, nodes=nodes, pool=replace(snapshot.pool, projects=projects))


@st.composite
def two_pools(draw: Draw) -> tuple[Snapshot, Snapshot]:
    """Two pools with the same projects, but different guarantees and limits."""
    one, other = (only_training(draw(snapshots())) for _ in range(2))
    one = replace(
        one,
        pool=replace(one.pool, projects=tuple(map(only_guaranteed, one.pool.projects))),
    )
    amounts = st.sampled_from([0, 0, 1000, 2000, 4000, 500])
    limits = st.sampled_from([None, None, 4000, 5000])
    projects = tuple(replace(p, guaranteed=draw(amounts), limit=draw(limits)) for p in one.pool.projects)
    leaves = [p.name for p in projects if all(q.parent != p.name for q in projects)]
    named = {name: draw(st.sampled_from(leaves)) for name in {w.request.project for w in other.workloads}}
    return one, Snapshot(
        one.now,
        replace(one.pool, projects=projects, node_pools=(NodePool(FAST, Environment.TRAIN),)),
        tuple(replace(node, name=NodeName(f"f{node.name}"), node_pool=FAST) for node in other.nodes),
        tuple(
            replace(
                w,
                id=JobId(f"f{w.id}"),
                request=replace(w.request, project=named[w.request.project], node_pools=(FAST,)),
                placement=tuple(replace(worker, node=NodeName(f"f{worker.node}")) for worker in w.placement),
                nomination=tuple(replace(worker, node=NodeName(f"f{worker.node}")) for worker in w.nomination),
            )
            for w in other.workloads
        ),
        one.usage,
    )


def joined(one: Snapshot, other: Snapshot) -> Snapshot:
    """Both pools as one: the projects' amounts in the second become quotas."""
    there = {p.name: Quota(p.guaranteed, p.limit, node_pool=FAST) for p in other.pool.projects}
    return Snapshot(
        one.now,
        replace(
            one.pool,
            node_pools=one.pool.node_pools + other.pool.node_pools,
            projects=tuple(replace(p, quotas=(there[p.name],)) for p in one.pool.projects),
        ),
        one.nodes + other.nodes,
        one.workloads + other.workloads,
        one.usage,
    )


@many
@given(two_pools())
def test_a_partition_with_its_own_guarantees_behaves_like_a_separate_pool(pools: tuple[Snapshot, Snapshot]) -> None:
    plans = [decide(pool) for pool in pools]
    whole = decide(joined(*pools))
    for plan in plans:
        for id, decision in plan.decisions.items():
            now = whole.decisions[id]
            assert (now.action, now.placement, now.after) == (
                decision.action,
                decision.placement,
                decision.after,
            )
    for name, figures in whole.projects.items():
        assert figures.partitions[REMAINDER] == plans[0].projects[name]
        assert figures.partitions[FAST, None] == plans[1].projects[name]
        assert figures.allocated == sum(plan.projects[name].allocated for plan in plans)


# -- jobs that may run in several partitions ---------------------------------------------------------------------


@st.composite
def apart(draw: Draw) -> Snapshot:
    """A pool of several partitions, and jobs that may run in any."""
    snapshot = draw(snapshots())
    quotas = st.sampled_from(
        [
            (),
            (),
            (Quota(1000, gpu_type=A100),),
            (Quota(2000, 4000, gpu_type=H100), Quota(0, node_pool=TRAIN_POOL, gpu_type=A100)),
            (Quota(4000, gpu_type=A100), Quota(limit=2000, gpu_type=H100)),
        ]
    )
    projects = tuple(replace(p, quotas=draw(quotas)) for p in snapshot.pool.projects)
    assume(len(partition_keys(projects)) > 1)
    return replace(snapshot, pool=replace(snapshot.pool, projects=projects))


OTHERWISE = {
    rules.limits_and_guarantees_hold_down_the_tree,  # a partition may have guarantees beyond the project's own
    rules.no_gpu_is_idle_while_a_job_that_fits_waits,  # a job runs in one partition, a gang not across two
    rules.nothing_inside_a_guarantee_is_lost_to_others,  # nor is a guarantee the project's alone
}
"""These rules have their own variants for partitions below."""


@settings(many, max_examples=200)
@given(apart())
def test_the_rules_hold_in_all_partitions(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    for rule in rules.RULES:
        if rule not in OTHERWISE:
            rule(snapshot, plan)


def part_held(snapshot: Snapshot, project: Project, quota: Quota) -> int:
    nodes = {node.name for node in snapshot.nodes if quota.covers(node)}
    return held(within(snapshot, nodes), project.name)


@many
@given(apart())
def test_limits_hold_in_each_partition_and_in_total(snapshot: Snapshot) -> None:
    after = carry_out(snapshot, decide(snapshot))
    for project in snapshot.pool.projects:
        for quota in (Quota(limit=project.limit), *project.quotas):
            if quota.limit is not None:
                before, now = part_held(snapshot, project, quota), part_held(after, project, quota)
                assert now <= max(quota.limit, before)


def partitions_of_job(snapshot: Snapshot, workload: Workload) -> set[tuple[str | None, str | None]]:
    partitions, nodes = partition_keys(snapshot.pool.projects), {node.name: node for node in snapshot.nodes}
    lent = {node.name for node in snapshot.nodes if node.node_pool == "build"}
    return {
        REMAINDER if worker.node in lent else partition_of(nodes[worker.node], partitions)
        for worker in workload.placement
    }


@many
@given(apart())
def test_a_job_starts_in_one_partition(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        if decision.action is Action.START:
            assert len(partitions_of_job(snapshot, replace(workload, placement=decision.placement))) == 1


@many
@given(apart())
def test_no_project_reclaims_what_another_is_guaranteed_in_a_partition(snapshot: Snapshot) -> None:
    snapshot = short_of_gpus_alone(snapshot)
    plan = decide(snapshot)
    by_id = {w.id: w for w in snapshot.workloads}
    assume(all(len(partitions_of_job(snapshot, w)) < 2 for w in snapshot.workloads))
    lost: dict[tuple[str, Any], dict[str, int]] = {}
    for newcomer, decision in plan.decisions.items():
        for id in decision.after:
            victim, asker = by_id[id], by_id[newcomer].request
            if plan.decisions[id].action is not Action.STOP:
                continue
            if asker.environment is Environment.BUILD or asker.project == victim.request.project:
                return  # a lent GPU that goes back, or the more important job of the same project: other rules
            (key,) = partitions_of_job(snapshot, victim)
            lost.setdefault((victim.request.project, key), {})[id] = amount(victim.placement)
    for (project, key), losses in lost.items():
        guaranteed = guarantees(key, snapshot.pool.projects)[ProjectName(project)]
        there = sum(
            amount(w.placement)
            for w in snapshot.workloads
            if w.running and not w.stopping and w.request.project == project
            if key in partitions_of_job(snapshot, w)
        )
        assert guaranteed is not None
        assert there - (sum(losses.values()) - max(losses.values())) > guaranteed


@many
@given(apart())
def test_a_job_of_one_worker_uses_free_gpus_of_any_partition(snapshot: Snapshot) -> None:
    pool = replace(snapshot.pool, settings=replace(snapshot.pool.settings, reservations=0))
    snapshot = replace(snapshot, pool=pool)
    plan = decide(snapshot)
    floor = Floor(snapshot.nodes)
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        stands = decision.placement if decision.action in rules.MORE else workload.placement
        left = workload.placement if decision.action is Action.MOVE else ()
        for worker, shape in (
            *standing(snapshot, workload, stands),
            *standing(snapshot, workload, left),
        ):
            floor.take(worker, shape)
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        alone = request.min_workers == 1 and not request.groups and not request.require
        train = request.environment is Environment.TRAIN
        nodes = [node for node in snapshot.nodes if node.name not in request.avoids]
        if decision.action is Action.WAIT and alone and train and floor.stand(request, 1, nodes) is not None:
            assert decision.blocked_by is not None
            assert decision.details["kind"] in ("limit", "guarantee"), decision
            return


def test_a_job_that_lost_its_nomination_gets_free_gpus_elsewhere() -> None:
    """Its guarantee is in the rest of the pool; it may hold nothing non-preemptible where it was nominated."""
    projects = (
        Project(ProjectName("a"), guaranteed=1000),
        Project(ProjectName("b"), quotas=(Quota(gpu_type=A100, guaranteed=1000),)),
    )
    nodes = (Node(NodeName("n1"), gpus=4, gpu_type=A100), Node(NodeName("n2"), gpus=4))
    job = Workload(
        JobId("j"),
        Request(ProjectName("a"), preemptible=False),
        NOW,
        nomination=(WorkerPlacement(NodeName("n1"), (0,)),),
    )
    found = decide(Snapshot(NOW, Pool(projects=projects), nodes, (job,))).decisions[JobId("j")]
    assert (found.action, [worker.node for worker in found.placement]) == (Action.START, ["n2"])


def test_unmet_demand_overflows_to_the_next_partition_by_urgency() -> None:
    """In any order of the snapshot's jobs."""
    names = (TRAIN_POOL, FAST, NodePoolName("slow"))
    quotas = tuple(Quota(0, node_pool=name) for name in names[1:])
    pool = Pool(
        node_pools=tuple(NodePool(name, Environment.TRAIN) for name in names),
        projects=(Project(ProjectName("p"), quotas=quotas),),
    )
    nodes = tuple(Node(NodeName(name), gpus=1, node_pool=name) for name in names)
    older = Workload(JobId("older"), Request(ProjectName("p"), node_pools=(TRAIN_POOL, FAST)), NOW - 1)
    younger = Workload(JobId("younger"), Request(ProjectName("p"), node_pools=(TRAIN_POOL, NodePoolName("slow"))), NOW)
    for jobs in ((older, younger), (younger, older)):
        partitions = decide(Snapshot(NOW, pool, nodes, jobs)).projects[ProjectName("p")].partitions
        assert [partitions[key].fair_share for key in (REMAINDER, ("fast", None), ("slow", None))] == [
            1000,
            1000,
            0,
        ]
