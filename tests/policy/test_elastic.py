"""Rule 7 of the design: elastic jobs shrink before any job is stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    JobId,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    ReclaimUpTo,
    Request,
    Settings,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Action, Snapshot, decide
from tests.policy.pools import NOW

many = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def full_pools(draw: st.DrawFn) -> Snapshot:
    """A project without a guarantee fills all nodes with elastic and other jobs; another one claims its guarantee."""
    nodes = tuple(Node(NodeName(f"n{n}"), gpus=4) for n in range(draw(st.integers(1, 3))))
    free = [(node.name, gpu) for node in nodes for gpu in range(node.gpus)]
    guaranteed = draw(st.integers(1, len(free)))
    work: list[Workload] = []
    while free:
        most = draw(st.integers(1, min(4, len(free))))
        least = draw(st.integers(1, most))
        seats, free = free[:most], free[most:]
        work.append(
            Workload(
                JobId(f"r{len(work):02}"),
                Request(ProjectName("over"), workers=most, min_workers=least, priority=draw(st.sampled_from([10, 50]))),
                submitted=NOW - 5000,
                running=True,
                started=NOW - draw(st.integers(1, 4000)),
                placement=tuple(WorkerPlacement(node, (gpu,)) for node, gpu in seats),
            )
        )
    for n in range(draw(st.integers(1, guaranteed))):
        work.append(Workload(JobId(f"q{n:02}"), Request(ProjectName("due")), submitted=NOW - 100))
    projects = (Project(ProjectName("over"), weight=1000), Project(ProjectName("due"), guaranteed=guaranteed * 1000))
    return Snapshot(NOW, Pool(projects=projects, settings=Settings(reclaim=ReclaimUpTo.GUARANTEE)), nodes, tuple(work))


@many
@given(full_pools())
def test_elastic_jobs_shrink_before_any_job_is_stopped(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    running = [w for w in snapshot.workloads if w.running]
    if any(plan.decisions[w.id].action is Action.STOP for w in running):
        for workload in running:
            assert len(plan.decisions[workload.id].placement) in (0, workload.request.min_workers)


def test_surplus_workers_make_room_for_a_job_of_the_same_project_with_a_reason() -> None:
    elastic = Workload(
        JobId("elastic"),
        Request(ProjectName("a"), workers=3, min_workers=1),
        submitted=NOW - 5000,
        running=True,
        started=NOW - 4000,
        placement=tuple(WorkerPlacement(NodeName("n0"), (gpu,)) for gpu in range(3)),
    )
    waiting = Workload(JobId("waiting"), Request(ProjectName("a")), submitted=NOW - 100)
    pool = Pool(projects=(Project(ProjectName("a"), guaranteed=3000),))
    decision = decide(Snapshot(NOW, pool, (Node(NodeName("n0"), gpus=3),), (elastic, waiting))).decisions[
        JobId("elastic")
    ]
    assert (decision.action, len(decision.placement)) == (Action.SHRINK, 2)
    assert decision.reason == "waiting of the same project needs their GPUs."


def test_an_elastic_job_does_not_grow_onto_a_cordoned_node() -> None:
    """Not even where a victim holds GPUs there, in the required domain."""

    def running(id: str, project: str, node: str, gpus: tuple[int, ...], **asked: Any) -> Workload:
        places = tuple(WorkerPlacement(NodeName(node), (gpu,)) for gpu in gpus)
        request = Request(ProjectName(project), **asked)
        return Workload(JobId(id), request, submitted=NOW - 900, running=True, started=NOW - 900, placement=places)

    rack = {"rack": "r0"}
    nodes = Node(NodeName("n0"), gpus=2, labels=rack, schedulable=False), Node(NodeName("n1"), gpus=2, labels=rack)
    pool = Pool(projects=(Project(ProjectName("a"), guaranteed=4000), Project(ProjectName("b"))), topology=("rack",))
    elastic = replace(running("elastic", "a", "n1", (0,), workers=4, min_workers=1, require="rack"), checkpointed=NOW)
    others = running("o1", "b", "n1", (1,)), replace(running("o2", "b", "n0", (0,)), stopping=True)
    decision = decide(Snapshot(NOW, pool, nodes, (elastic, *others))).decisions[JobId("elastic")]
    assert (decision.action, {worker.node for worker in decision.placement}) == (Action.GROW, {"n1"})
