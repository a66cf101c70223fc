"""Jobs go where similar jobs ran fastest, if that is free, and never wait for it while another place is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler.model import (
    ONE,
    GpuType,
    JobId,
    Node,
    NodeName,
    NodePoolName,
    Pool,
    Project,
    ProjectName,
    Quota,
    RelativeThroughputs,
    Request,
    Shape,
    WorkerGroup,
    Workload,
    WorkloadId,
)
from scheduler.policy import Action, Decision, Snapshot, decide
from tests.policy.pools import NOW, snapshots

A100 = GpuType("A100")
H100 = GpuType("H100")
V100 = GpuType("V100")
K80 = GpuType("K80")

FASTER: RelativeThroughputs = ((A100, 1000), (V100, 370))
NODES = (
    Node(NodeName("v"), 4, gpu_type=V100),
    Node(NodeName("a"), 4, gpu_type=A100),
    Node(NodeName("w"), 4, gpu_type=V100),
)


def waits(
    name: str, *, gpus: int = 1, workers: int = 1, throughputs: RelativeThroughputs = FASTER, **more: object
) -> Workload:
    request = Request(
        ProjectName("p"), shape=Shape(gpus * ONE), workers=workers, min_workers=workers, throughputs=throughputs
    )
    return Workload(name, replace(request, **more), NOW)  # type: ignore[arg-type]


def plan(*work: Workload, nodes: tuple[Node, ...] = NODES) -> Mapping[WorkloadId, Decision]:
    pool = Pool(projects=(Project(ProjectName("p"), guaranteed=None),))
    return decide(Snapshot(NOW, pool, nodes, work)).decisions


def places(decision: Decision) -> list[str]:
    return [worker.node for worker in decision.placement]


def test_the_fastest_type_is_used_while_it_is_free_and_any_other_then() -> None:
    found = plan(*(waits(f"j{n}") for n in range(6)))
    assert [places(found[JobId(f"j{n}")]) for n in range(4)] == [["a"]] * 4
    assert {*places(found[JobId("j4")]), *places(found[JobId("j5")])} <= {"v", "w"}


def test_plans_are_the_same_without_throughputs() -> None:
    assert places(plan(waits("j", throughputs=()))[JobId("j")]) == ["v"]


@pytest.mark.parametrize(("slower", "node"), [(951, "v"), (949, "a")])
def test_types_of_nearly_equal_speed_are_treated_alike(slower: int, node: str) -> None:
    assert places(plan(waits("j", throughputs=((A100, 1000), (V100, slower))))[JobId("j")]) == [node]


def test_an_untried_type_counts_as_the_fastest() -> None:
    new = Node(NodeName("n"), 4, gpu_type=H100)
    found = plan(waits("j"), waits("k", gpus=4), nodes=(NODES[0], new))
    assert places(found[JobId("j")]) == ["n"]


def test_requested_node_pools_come_first() -> None:
    nodes = (replace(NODES[0], node_pool=NodePoolName("old")), NODES[1])
    assert places(plan(waits("j", node_pools=("old", "train")), nodes=nodes)[JobId("j")]) == ["v"]


def test_a_gang_prefers_one_type_to_a_faster_mixture() -> None:
    found = plan(waits("first"), waits("gang", workers=4))
    assert places(found[JobId("first")]) == ["a"]
    assert places(found[JobId("gang")]) == ["v"] * 4  # three A100s are left


def test_a_gang_too_large_for_each_type_takes_the_fastest_ones_together() -> None:
    third = Node(NodeName("k"), 8, gpu_type=K80)
    throughputs = (*FASTER, (K80, 100))
    gang = waits("gang", workers=6, throughputs=throughputs)
    assert set(places(plan(gang, nodes=(third, *NODES[:2]))[JobId("gang")])) == {"a", "v"}
    assert (
        places(plan(waits("gang", workers=8, throughputs=throughputs), nodes=(third, NODES[0]))[JobId("gang")])
        == ["k"] * 8
    )


def test_the_groups_of_a_gang_are_placed_on_one_type() -> None:
    groups = (WorkerGroup("server", 1, Shape(2 * ONE)), WorkerGroup("worker", 2, Shape(ONE)))
    gang = waits("gang", groups=groups, workers=3, min_workers=3)
    assert places(plan(gang)[JobId("gang")]) == ["a"] * 3
    assert set(places(plan(waits("first"), gang)[JobId("gang")])) <= {"v", "w"}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_throughputs_never_make_a_job_wait(snapshot: Snapshot) -> None:
    """Judged one job at a time: where one stands another may not, with throughputs or without."""
    standing = tuple(w for w in snapshot.workloads if w.running)
    for work in [w for w in snapshot.workloads if not w.running]:
        with_throughputs = replace(
            work,
            request=replace(
                work.request,
                throughputs=((A100, 400), (H100, 1000)),
                spread_throughputs=((H100, 300),),
            ),
        )
        without = replace(work, request=replace(work.request, throughputs=()))
        found = [
            decide(replace(snapshot, workloads=(*standing, each))).decisions[work.id]
            for each in (with_throughputs, without)
        ]
        assert (found[0].action is Action.START) == (found[1].action is Action.START)
        assert bool(found[0].after) == bool(found[1].after)


def test_a_gang_runs_on_one_slower_node_if_it_would_be_slower_still_over_several() -> None:
    nodes = (
        Node(NodeName("a1"), 2, gpu_type=A100),
        Node(NodeName("a2"), 2, gpu_type=A100),
        Node(NodeName("v"), 4, gpu_type=V100),
    )
    throughputs: RelativeThroughputs = ((A100, 1000), (V100, 600))
    gang = waits("gang", workers=4, throughputs=throughputs, spread_throughputs=(("A100", 400), ("V100", 300)))
    assert places(plan(gang, nodes=nodes)[JobId("gang")]) == ["v"] * 4
    unknown = waits("gang", workers=4, throughputs=throughputs)
    assert set(places(plan(unknown, nodes=nodes)[JobId("gang")])) == {"a1", "a2"}
    assert set(places(plan(gang, nodes=nodes[:2])[JobId("gang")])) == {"a1", "a2"}
    pair = waits("pair", workers=2, throughputs=throughputs, spread_throughputs=(("A100", 400), ("V100", 300)))
    assert set(places(plan(pair, nodes=nodes)[JobId("pair")])) <= {"a1", "a2"}


def test_the_partition_with_a_guarantee_comes_before_the_fastest_one() -> None:
    quotas = (Quota(guaranteed=2 * ONE, gpu_type=V100),)
    projects = (
        Project(ProjectName("p")),
        Project(ProjectName("owner"), quotas=quotas),
        Project(ProjectName("other"), quotas=(Quota(gpu_type=A100, guaranteed=ONE),)),
    )
    mine, owners = waits("mine"), waits("owners", project="owner")
    found = decide(Snapshot(NOW, Pool(projects=projects), NODES, (mine, owners))).decisions
    assert places(found[JobId("mine")]) == ["a"]
    assert places(found[JobId("owners")]) == ["v"]


def test_slow_gpus_are_used_last_and_gangs_avoid_mixing_them_in() -> None:
    slow = replace(NODES[0], slowness=((1, 2200),))
    nodes = (slow, NODES[2])
    found = plan(*(waits(f"j{n}", throughputs=()) for n in range(8)), nodes=nodes)
    assert [places(found[JobId(f"j{n}")]) for n in range(4)] == [["w"]] * 4
    on_slow = [worker.gpus for n in range(4, 8) for worker in found[JobId(f"j{n}")].placement]
    assert on_slow[-1] == (1,)
    gang = plan(waits("gang", workers=4, throughputs=()), nodes=nodes)[JobId("gang")]
    assert places(gang) == ["w"] * 4


def test_a_slower_type_is_better_than_a_gpu_that_is_slower_than_it() -> None:
    slow = replace(NODES[1], slowness=((0, 3000), (1, 3000), (2, 3000), (3, 3000)))
    assert places(plan(waits("j"), nodes=(slow, NODES[0]))[JobId("j")]) == ["v"]
    assert places(plan(waits("j"), nodes=(replace(slow, slowness=((0, 1500),)), NODES[0]))[JobId("j")]) == ["a"]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_slow_gpus_never_make_a_job_wait(snapshot: Snapshot) -> None:
    """Judged one job at a time, as for throughputs."""
    nodes = tuple(
        replace(node, slowness=((0, 2200),)) if number % 2 and node.gpus else node
        for number, node in enumerate(snapshot.nodes)
    )
    standing = tuple(w for w in snapshot.workloads if w.running)
    for work in [w for w in snapshot.workloads if not w.running]:
        one = replace(snapshot, workloads=(*standing, work))
        found = [decide(each).decisions[work.id] for each in (one, replace(one, nodes=nodes))]
        assert (found[0].action is Action.START) == (found[1].action is Action.START)
        assert bool(found[0].after) == bool(found[1].after)
