"""The victims for a new job lose the least work, compared with a search through all candidates."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    ONE,
    JobId,
    Milli,
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
from scheduler.policy import Action, Snapshot, cycle, decide, victims
from tests.policy.pools import NOW, Draw

many = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
NEW = JobId("new")


@st.composite
def crowds(draw: Draw, sizes: tuple[int, ...]) -> Snapshot:
    """A pool filled by a project without a guarantee, and a job inside another project's guarantee."""
    nodes, running = list[Node](), list[Workload]()
    for n in range(draw(st.integers(1, 3))):
        node = Node(NodeName(f"n{n}"), gpus=draw(st.sampled_from([1, 2, 3, 4])))
        nodes.append(node)
        left = list(range(node.gpus))
        while left:
            size = min(draw(st.sampled_from(sizes)), len(left))
            taken, left = left[:size], left[size:]
            if draw(st.integers(0, 5)) == 0:
                continue  # these are free
            since = NOW - draw(st.integers(0, 500))
            running.append(
                Workload(
                    JobId(f"r{len(running)}"),
                    Request(ProjectName("full"), shape=Shape(size * ONE)),
                    since,
                    running=True,
                    started=since,
                    checkpointed=draw(st.sampled_from([None, (since + NOW) / 2])),
                    placement=(WorkerPlacement(node.name, tuple(taken)),),
                )
            )
    asked = draw(st.integers(1, max(node.gpus for node in nodes)))
    newcomer = Workload(NEW, Request(ProjectName("due"), shape=Shape(asked * ONE)), NOW)
    projects = (Project(ProjectName("full")), Project(ProjectName("due"), guaranteed=asked * ONE))
    pool = Pool(projects=projects, settings=Settings(reservations=0))
    return Snapshot(NOW, pool, tuple(nodes), (*running, newcomer))


def size(workload: Workload) -> int:
    return len(workload.placement[0].gpus)


def loss(workload: Workload) -> float:
    saved = workload.checkpointed if workload.checkpointed is not None else workload.started
    assert saved is not None
    return (NOW - saved) * size(workload)


def makes_room(snapshot: Snapshot, gone: tuple[Workload, ...]) -> bool:
    """Whether the new job fits once these are gone."""
    asked: Milli = next(w for w in snapshot.workloads if w.id == NEW).request.shape.gpus
    for node in snapshot.nodes:
        stay = [w for w in snapshot.workloads if w.running and w not in gone and w.placement[0].node == node.name]
        if (node.gpus - sum(map(size, stay))) * ONE >= asked:
            return True
    return False


def stopped(snapshot: Snapshot) -> tuple[Workload, ...]:
    """The jobs that lose work by the plan, whether queued again or continued elsewhere."""
    plan = decide(snapshot)
    assert plan.decisions[NEW].action is Action.START
    cut = (Action.STOP, Action.MOVE)
    return tuple(w for w in snapshot.workloads if plan.decisions[w.id].action in cut)


@many
@given(crowds(sizes=(1,)))
def test_of_jobs_of_equal_size_those_that_lose_least_work_are_stopped(snapshot: Snapshot) -> None:
    running = [w for w in snapshot.workloads if w.running]
    sets = (some for n in range(len(running) + 1) for some in combinations(running, n))
    least = min(sum(map(loss, some)) for some in sets if makes_room(snapshot, some))
    assert sum(map(loss, stopped(snapshot))) == least


@many
@given(crowds(sizes=(1, 1, 2, 3)))
def test_no_job_is_stopped_without_need_and_no_more_is_lost_than_by_stopping_in_order(
    snapshot: Snapshot,
) -> None:
    victims = stopped(snapshot)
    for victim in victims:
        assert not makes_room(snapshot, tuple(w for w in victims if w is not victim))
    in_turn: tuple[Workload, ...] = ()
    for workload in sorted((w for w in snapshot.workloads if w.running), key=loss):
        if not makes_room(snapshot, in_turn):
            in_turn = (*in_turn, workload)
    for workload in reversed(in_turn):
        left = tuple(w for w in in_turn if w is not workload)
        if makes_room(snapshot, left):
            in_turn = left
    assert sum(map(loss, victims)) <= sum(map(loss, in_turn))


def test_a_gang_without_a_chance_leaves_the_looks_of_a_cycle_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one of two nodes can be cleared, so nothing is looked at for the gang of two; the next job gets its GPU."""
    monkeypatch.setattr(cycle, "LOOKS", 4)
    gang = important("gang", 4000, workers=2)
    plan = decide(two_nodes(gang, important(NEW, 1000), fixed=True))
    assert plan.decisions[gang.id].action is Action.WAIT
    assert plan.decisions[NEW].action is Action.START


def test_a_search_that_is_cut_short_uses_what_it_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victims, "LOOKS", 6)
    plan = decide(two_nodes(important(NEW, 4000)))
    assert plan.decisions[NEW].placement == (WorkerPlacement(NodeName("n0"), (0, 1, 2, 3)),)


def important(id: str, gpus: Milli, workers: int = 1) -> Workload:
    request = Request(ProjectName("a"), shape=Shape(gpus), workers=workers, min_workers=workers, priority=90)
    return Workload(JobId(id), request, NOW - gpus / 1000)


def two_nodes(*newcomers: Workload, fixed: bool = False) -> Snapshot:
    """Eight less important jobs, the last of which can't be preempted if `fixed`, fill two nodes of four GPUs."""
    work = [
        Workload(
            JobId(f"r{gpu}"),
            Request(ProjectName("a"), preemptible=not fixed or gpu != 7),
            NOW - 99,
            running=True,
            started=NOW - 50 - gpu,
            placement=(WorkerPlacement(NodeName(f"n{gpu // 4}"), (gpu % 4,)),),
        )
        for gpu in range(8)
    ]
    pool = Pool(projects=(Project(ProjectName("a"), guaranteed=8000),), settings=Settings(reservations=0))
    return Snapshot(NOW, pool, tuple(Node(NodeName(f"n{n}"), gpus=4) for n in range(2)), (*work, *newcomers))


def test_a_stopped_job_gives_no_surplus_in_addition() -> None:
    """Quarters of one GPU: the elastic job's three are tried one by one and as a whole; neither suffices."""

    def quarters(id: str, gpu: int, workers: int, preemptible: bool) -> Workload:
        placement = tuple(WorkerPlacement(NodeName("n"), (gpu,), 250) for _ in range(workers))
        request = Request(ProjectName("full"), shape=Shape(250), workers=workers, preemptible=preemptible)
        return Workload(JobId(id), request, NOW - 5, running=True, started=NOW - 5, placement=placement)

    work = (quarters("fixed", 0, 1, False), quarters("elastic", 0, 3, True), quarters("other", 1, 1, False))
    pool = Pool(projects=(Project(ProjectName("full")), Project(ProjectName("due"), guaranteed=1000)))
    newcomer = Workload(NEW, Request(ProjectName("due")), NOW)
    plan = decide(Snapshot(NOW, pool, (Node(NodeName("n"), gpus=2),), (*work, newcomer)))
    assert {id: decision.action for id, decision in plan.decisions.items()} == {
        "fixed": Action.KEEP, "elastic": Action.KEEP, "other": Action.KEEP, NEW: Action.WAIT
    }  # fmt: skip


def test_the_smallest_job_moves_where_nobody_loses_work() -> None:
    """Whole machines of jobs that have just saved their state must not hide the node where one GPU is in the way."""
    work = [running(f"full{n}", f"n{n}", 4) for n in range(12)]
    work += [running("small", "n12", 1), running("other", "n13", 3)]
    newcomer = Workload(NEW, Request(ProjectName("due"), shape=Shape(4 * ONE)), NOW)
    pool = Pool(projects=(Project(ProjectName("full"), guaranteed=None), Project(ProjectName("due"))))
    nodes = tuple(Node(NodeName(f"n{n}"), gpus=4) for n in range(14))
    plan = decide(Snapshot(NOW, pool, nodes, (*work, newcomer)))
    assert {id: decision.action for id, decision in plan.changes.items()} == {"small": Action.MOVE, NEW: Action.START}


def running(id: str, node: str, gpus: int) -> Workload:
    """A job that has just saved its state."""
    return Workload(
        JobId(id),
        Request(ProjectName("full"), shape=Shape(gpus * ONE)),
        NOW - 500,
        running=True,
        started=NOW - 500,
        checkpointed=NOW,
        placement=(WorkerPlacement(NodeName(node), tuple(range(gpus))),),
    )
