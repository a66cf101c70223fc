"""Placement of gangs, compared with an exhaustive search: required levels hold, preferred ones if possible."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import (
    ONE,
    TRAIN_POOL,
    Environment,
    JobId,
    Node,
    NodeName,
    NodePool,
    PlacementStyle,
    Pool,
    Project,
    ProjectName,
    Request,
    Shape,
    WorkerGroup,
    WorkerPlacement,
    Workload,
    size_of,
)
from scheduler.policy import Action, Snapshot, decide
from scheduler.policy.types import Decision

Draw = Callable[[st.SearchStrategy[Any]], Any]

LEVELS = ("node", "rack", "block")
"""Ordered from narrow to wide."""


@st.composite
def fleets(draw: Draw) -> tuple[tuple[Node, ...], tuple[Workload, ...]]:
    """A few nodes in racks of blocks, with jobs that keep running."""
    nodes, running = [], []
    for number in range(draw(st.integers(1, 6))):
        gpus = draw(st.sampled_from([2, 4, 8]))
        linked = gpus > 2 and draw(st.booleans())
        gpu_links = (tuple(range(gpus // 2)), tuple(range(gpus // 2, gpus))) if linked else ()
        labels = {"block": draw(st.sampled_from(["b0", "b1"])), "rack": draw(st.sampled_from(["r0", "r1"]))}
        nodes.append(Node(NodeName(f"n{number}"), gpus, labels=labels, gpu_links=gpu_links))
        taken = draw(st.lists(st.integers(0, gpus - 1), unique=True, max_size=min(gpus, 3)))
        if taken:
            stays = Request(ProjectName("others"), shape=Shape(len(taken) * ONE), preemptible=False)
            place = WorkerPlacement(NodeName(f"n{number}"), tuple(sorted(taken)))
            running.append(Workload(JobId(f"run{number}"), stays, 0.0, running=True, started=0.0, placement=(place,)))
    return tuple(nodes), tuple(running)


LEVEL = st.sampled_from([None, *LEVELS])
GPUS = st.integers(1, 4)


def gang(workers: int, gpus: int, require: str | None, prefer: str | None) -> Request:
    shape = Shape(gpus * ONE)
    return Request(
        ProjectName("ours"), shape=shape, workers=workers, min_workers=workers, require=require, prefer=prefer
    )


def groups(asked: list[tuple[int, int]], require: str | None, prefer: str | None) -> Request:
    made = tuple(WorkerGroup(f"g{n}", workers, Shape(gpus * ONE)) for n, (workers, gpus) in enumerate(asked))
    workers = sum(group.workers for group in made)
    largest = max((group.shape for group in made), key=size_of)
    return Request(
        ProjectName("ours"),
        shape=largest,
        workers=workers,
        min_workers=workers,
        groups=made,
        require=require,
        prefer=prefer,
    )


gangs = st.builds(gang, st.integers(1, 5), GPUS, LEVEL, LEVEL) | st.builds(
    groups, st.lists(st.tuples(st.integers(1, 3), GPUS), min_size=2, max_size=3), LEVEL, LEVEL
)


@cache
def packs(free: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Whether workers of these sizes fit into nodes with these free GPUs, by exhaustive search."""
    if not sizes:
        return True
    return any(
        packs(tuple(sorted((*free[:at], left - sizes[0], *free[at + 1 :]))), sizes[1:])
        for at, left in enumerate(free)
        if left >= sizes[0]
    )


class Case:
    """One gang placed among running jobs, by the policy and by a full search."""

    def __init__(
        self, nodes: Sequence[Node], running: Sequence[Workload], request: Request, style: PlacementStyle
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.free = {node.name: node.gpus for node in nodes}
        for workload in running:
            self.free[workload.placement[0].node] -= len(workload.placement[0].gpus)
        taken = {(worker.node, gpu) for workload in running for worker in workload.placement for gpu in worker.gpus}
        self.linked = {  # the most that are free in one group of links; a node without such groups is one
            node.name: max(
                sum((node.name, gpu) not in taken for gpu in group) for group in node.gpu_links or (range(node.gpus),)
            )
            for node in nodes
        }
        self.sizes = tuple(sorted((shape.gpus // ONE for shape in request.shapes), reverse=True))
        pool = Pool(
            node_pools=(NodePool(TRAIN_POOL, Environment.TRAIN, style),),
            projects=(Project(ProjectName("ours")), Project(ProjectName("others"), guaranteed=None)),
            topology=("block", "rack"),
        )
        asked = Workload(JobId("gang"), request, 1.0)
        self.decision: Decision = decide(Snapshot(10.0, pool, tuple(nodes), (*running, asked))).decisions[JobId("gang")]
        self.used = Counter[str]()
        for worker in self.decision.placement:
            self.used[worker.node] += len(worker.gpus)

    def domain(self, node: str, level: str) -> tuple[str, ...]:
        labels = self.nodes[NodeName(node)].labels
        return {"node": (node,), "rack": (labels["block"], labels["rack"]), "block": (labels["block"],)}[level]

    def could_stand(self, level: str | None) -> bool:
        """Whether the whole gang fits within one domain of the level, or anywhere."""
        domains = defaultdict(list)
        for node, free in self.free.items():
            domains[self.domain(node, level) if level else ()].append(free)
        return any(packs(tuple(sorted(free)), self.sizes) for free in domains.values())

    def stands_within(self, level: str) -> bool:
        return len({self.domain(node, level) for node in self.used}) == 1


STYLES = st.sampled_from(list(PlacementStyle))


@given(fleets(), gangs, STYLES)
@settings(max_examples=400, deadline=None)
def test_a_gang_is_placed_by_its_required_and_preferred_levels(
    fleet: tuple[tuple[Node, ...], tuple[Workload, ...]], request: Request, style: PlacementStyle
) -> None:
    case = Case(*fleet, request, style)
    must, would = request.require, request.prefer
    assert (case.decision.action is Action.START) == case.could_stand(must), case.decision.reason
    if case.decision.action is not Action.START:
        return
    assert sorted((len(worker.gpus) for worker in case.decision.placement), reverse=True) == list(case.sizes)
    assert all(gpus <= case.free[NodeName(node)] for node, gpus in case.used.items())
    assert must is None or case.stands_within(must)
    if would is not None and case.could_stand(would):
        assert case.stands_within(would)
    if style is PlacementStyle.PACK:
        narrowest = next((level for level in LEVELS if case.could_stand(level)), None)
        assert narrowest is None or case.stands_within(narrowest)


@given(fleets(), GPUS, STYLES)
@settings(max_examples=200, deadline=None)
def test_one_worker_is_placed_in_one_link_group_of_the_fullest_or_emptiest_node(
    fleet: tuple[tuple[Node, ...], tuple[Workload, ...]], gpus: int, style: PlacementStyle
) -> None:
    case = Case(*fleet, gang(1, gpus, None, None), style)
    fitting = [node for node, free in case.free.items() if free >= gpus]
    fitting = [node for node in fitting if case.linked[node] >= gpus] or fitting
    if fitting:
        (node,) = case.used
        assert node in fitting
        best = min if style is PlacementStyle.PACK else max
        assert case.free[NodeName(node)] == best(case.free[other] for other in fitting)
        (worker,) = case.decision.placement
        groups_used = [group for group in case.nodes[NodeName(node)].gpu_links if set(group) & set(worker.gpus)]
        assert len(groups_used) <= 1 or case.linked[NodeName(node)] < gpus


def test_a_gang_runs_in_one_link_group_even_if_another_is_fuller() -> None:
    """Placed one by one, three workers would fill the group in use first."""
    node = Node(NodeName("n"), 8, gpu_links=((0, 1, 2, 3), (4, 5, 6, 7)))
    stays = Request(ProjectName("others"), shape=Shape(ONE), preemptible=False)
    used = Workload(
        JobId("run"), stays, 0.0, running=True, started=0.0, placement=(WorkerPlacement(NodeName("n"), (1,)),)
    )
    case = Case((node,), (used,), gang(4, 1, None, None), PlacementStyle.PACK)
    assert [worker.gpus for worker in case.decision.placement] == [(4,), (5,), (6,), (7,)]


@given(fleets(), st.integers(2, 4), st.integers(1, 2), st.sampled_from([None, "node"]))
@settings(max_examples=300, deadline=None)
def test_a_gang_is_placed_in_one_link_group_wherever_one_takes_it(
    fleet: tuple[tuple[Node, ...], tuple[Workload, ...]], workers: int, gpus: int, prefer: str | None
) -> None:
    case = Case(*fleet, gang(workers, gpus, None, prefer), PlacementStyle.PACK)
    if max(case.linked.values()) < workers * gpus:
        return
    ((node, count),) = case.used.items()
    groups = case.nodes[NodeName(node)].gpu_links
    held = {gpu for worker in case.decision.placement for gpu in worker.gpus}
    assert len(held) == count == workers * gpus
    assert not groups or any(held <= set(group) for group in groups)


def test_groups_are_placed_if_there_is_only_one_way() -> None:
    """4 + 3 and 3 + 3 on 8 and 6 free GPUs of one rack; placing the largest first on the fuller node fails."""
    labels = {"block": "b", "rack": "r"}
    nodes = (Node(NodeName("large"), 8, labels=labels), Node(NodeName("small"), 6, labels=labels))
    case = Case(nodes, (), groups([(3, 3), (1, 4)], "rack", None), PlacementStyle.PACK)
    assert case.used == {"large": 7, "small": 6}
