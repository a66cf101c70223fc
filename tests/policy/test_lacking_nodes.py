"""Which waiting jobs a cluster adds nodes for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.model import (
    ONE,
    GpuType,
    JobId,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Request,
    Shape,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Snapshot, SnapshotPlanner, decide, lacking_nodes
from tests.policy.pools import NOW

NODE = Node(NodeName("n"), gpus=2, gpu_type=GpuType("A100"))
A, B = ProjectName("a"), ProjectName("b")


def job(id: str, project: str = "a", gpus: int = 1, workers: int = 1, **more: Any) -> Workload:
    request = Request(ProjectName(project), shape=Shape(gpus=gpus * ONE), workers=workers, min_workers=workers, **more)
    return Workload(JobId(id), request, submitted=NOW - 100 + len(id))


HOLDER = replace(job("z", gpus=2), running=True, started=NOW - 50, placement=(WorkerPlacement(NODE.name, (0, 1)),))
"""A job of project a on both GPUs."""


def lacking(*waiting: Workload, **other: Any) -> list[str]:
    """Project a is inside its guarantee; `other` is what project b declares."""
    pool = Pool(projects=(Project(A, guaranteed=2 * ONE), Project(B, guaranteed=0, **other)))
    snapshot = Snapshot(NOW, pool, (NODE,), (HOLDER, *waiting))
    found = list(lacking_nodes(decide(snapshot)))
    assert found == list(lacking_nodes(SnapshotPlanner()(snapshot)))
    return [str(id) for id in found]


def test_the_first_of_each_project_come_before_the_second_ones() -> None:
    waiting = [job("a"), job("aa"), job("aaa", workers=2), job("b", "b"), job("bb", "b")]
    assert lacking(*waiting) == ["a", "b", "aa", "bb", "aaa"]


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param(job("x", "b", gpus=4), id="no node is large enough"),
        pytest.param(job("x", "b", workers=8), id="the nodes are too few"),
        pytest.param(job("x", "b", gpu_types=(GpuType("H100"),)), id="no node has the type"),
        pytest.param(job("x", "b", gpus=2, workers=2, require="node"), id="not on one node"),
        pytest.param(job("x", "b", avoids=(NODE.name,)), id="it avoids the only node"),
    ],
)
def test_it_lacks_nodes(waits: Workload) -> None:
    assert lacking(waits) == ["x"]


@pytest.mark.parametrize(
    ("waits", "pool"),
    [
        pytest.param(job("x", "b"), {"limit": 0}, id="its project is at its limit"),
        pytest.param(job("x", "b", preemptible=False), {}, id="it would leave its project's guarantee"),
        pytest.param(job("x", "c"), {}, id="its project is unknown"),
    ],
)
def test_it_may_not_start_even_with_more_nodes(waits: Workload, pool: dict[str, int]) -> None:
    assert lacking(waits, **pool) == []


def test_gpus_that_are_given_back_for_it_are_enough() -> None:
    pool = Pool(projects=(Project(A, guaranteed=0), Project(B, guaranteed=2 * ONE)))
    plan = decide(Snapshot(NOW, pool, (NODE,), (HOLDER, job("x", "b"))))
    assert plan.promises.keys() == {"x"}
    assert list(lacking_nodes(plan)) == []


def test_a_gang_that_the_nodes_are_too_few_for_keeps_nobody_waiting() -> None:
    pool = Pool(projects=(Project(A, guaranteed=2 * ONE),))
    plan = decide(Snapshot(NOW, pool, (NODE,), (job("gang", workers=8), job("small"))))
    assert list(plan.changes) == ["small"]
    assert list(lacking_nodes(plan)) == ["gang"]
