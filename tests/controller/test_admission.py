"""Jobs that could never run are refused immediately, with the field at fault and an alternative."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.controller.admission import admit_job, capacity
from scheduler.errors import Invalid
from scheduler.model import (
    BUILD_POOL,
    ONE,
    TRAIN_POOL,
    Environment,
    GpuType,
    JobKind,
    Node,
    NodeName,
    NodePool,
    NodePoolName,
    Pool,
    Program,
    Project,
    ProjectName,
    Quota,
    Request,
    Shape,
    UserName,
    WorkerGroup,
)

FAST = NodePoolName("fast")

PROGRAM = Program(JobKind.COMMAND, ("true",))

NODES = (
    Node(NodeName("b1"), 2, GpuType("T4"), 16 * 1024, node_pool=BUILD_POOL),
    Node(NodeName("n1"), 8, GpuType("A100"), 80 * 1024, cpus=96 * ONE, memory=1024 * 1024, labels={"rack": "r1"}),
    Node(NodeName("n2"), 8, GpuType("A100"), 80 * 1024, cpus=96 * ONE, memory=1024 * 1024, labels={"rack": "r1"}),
    Node(
        NodeName("n3"),
        4,
        GpuType("H100"),
        96 * 1024,
        cpus=96 * ONE,
        memory=1024 * 1024,
        labels={"rack": "r2"},
        node_pool=FAST,
    ),
)

POOL = Pool(
    node_pools=(
        NodePool(BUILD_POOL, Environment.BUILD),
        NodePool(TRAIN_POOL, Environment.TRAIN),
        NodePool(FAST, Environment.TRAIN),
    ),
    projects=(
        Project(ProjectName("vision")),
        Project(ProjectName("speech"), limit=4 * ONE, quotas=(Quota(limit=ONE, gpu_type=GpuType("H100")),)),
        Project(ProjectName("research"), limit=6 * ONE),
        Project(ProjectName("nlp"), parent=ProjectName("research")),
        Project(ProjectName("firm"), guaranteed=6 * ONE, quotas=(Quota(guaranteed=2 * ONE, gpu_type=GpuType("A100")),)),
    ),
    topology=("rack",),
)


def asks(project: str = "vision", gpus: float = 1, **more: Any) -> Request:
    shape = {name: more.pop(name) for name in ("gpu_memory", "cpus", "memory") if name in more}
    more.setdefault("min_workers", more.get("workers", 1))
    return Request(ProjectName(project), UserName("ana"), shape=Shape(int(gpus * ONE), **shape), **more)


@pytest.mark.parametrize(
    "request_",
    [
        asks(),
        asks(gpus=8),
        asks(gpus=0),
        asks(gpus=0.25, workers=80),
        asks(gpus=8, workers=2),
        asks(gpus=4, node_pools=("fast",)),
        asks(gpus=4, gpu_types=("H100", "B200")),
        asks(gpu_memory=90 * 1024),
        asks("speech", gpus=4),
        asks("firm", gpus=8, preemptible=False),
        asks("nlp", gpus=1, workers=8, min_workers=6),
        asks(gpus=8, workers=2, require="rack"),
        asks(gpus=1, workers=8, require="node"),
    ],
    ids=str,
)
def test_what_could_run_is_admitted(request_: Request) -> None:
    admit_job(request_, PROGRAM, POOL, NODES)


@pytest.mark.parametrize(
    "request_",
    [asks(gpus=16), asks(gpus=8, workers=100, min_workers=50), asks(gpus=8, workers=3, require="rack")],
    ids=str,
)
def test_where_nodes_are_added_the_present_ones_may_be_too_small_or_too_few(request_: Request) -> None:
    admit_job(request_, PROGRAM, POOL, NODES, grows=True)
    admit_job(request_, PROGRAM, POOL, (), grows=True)
    with pytest.raises(Invalid):
        admit_job(request_, PROGRAM, POOL, NODES)


@pytest.mark.parametrize(
    "request_",
    [asks("speech", gpus=8), asks(gpus=1, gpu_types=("H800",)), asks(gpus=16, require="raack")],
    ids=str,
)
def test_added_nodes_change_no_limits_types_or_topology(request_: Request) -> None:
    with pytest.raises(Invalid):
        admit_job(request_, PROGRAM, POOL, NODES, grows=True)


@pytest.mark.parametrize(
    ("request_", "field", "sentence"),
    [
        (
            asks("speech", gpus=2, gpu_types=("H100",)),
            "gpus",
            "It needs 2 GPUs at the same time; project 'speech' may hold 1 GPU of H100 at most.",
        ),
        (
            asks(gpus=2, preemptible=False),
            "preemptible",
            "A job that can't be preempted must fit into the guarantee of its project. It needs 2 GPUs, "
            "and project 'vision' is guaranteed 0 GPUs. Ask for less, or make it preemptible.",
        ),
        (asks("visoin"), "project", "There is no project 'visoin'; did you mean 'vision'?"),
        (asks("x"), "project", "There is no project 'x'; available: vision, speech, research, nlp, firm."),
        (
            asks("research"),
            "project",
            "Project 'research' has projects below it; submit to one of them: nlp.",
        ),
        (
            asks(gpus=16),
            "gpus",
            "A worker asks for 16 GPUs, and the largest node in its node pools has 8 GPUs; "
            "ask for fewer per worker, or for more workers.",
        ),
        (
            asks(gpus=8, node_pools=("fast",)),
            "gpus",
            "A worker asks for 8 GPUs, and the largest node in its node pools has 4 GPUs; "
            "ask for fewer per worker, or for more workers.",
        ),
        (
            asks(
                gpus=8,
                workers=4,
                groups=(WorkerGroup("a", 2, Shape(8 * ONE)), WorkerGroup("b", 2, Shape(4 * ONE))),
            ),
            "groups",
            "Its groups need 24 GPUs at the same time, and at most 20 GPUs can ever be available.",
        ),
        (
            asks(
                gpus=8,
                workers=2,
                groups=(WorkerGroup("a", 1, Shape(8 * ONE)), WorkerGroup("b", 1, Shape(16 * ONE))),
            ),
            "gpus",
            "A worker asks for 16 GPUs, and the largest node in its node pools has 8 GPUs; "
            "ask for fewer per worker, or for more workers.",
        ),
        (
            asks(
                "speech",
                gpus=2,
                workers=3,
                groups=(WorkerGroup("a", 1, Shape(ONE)), WorkerGroup("b", 2, Shape(2 * ONE))),
            ),
            "workers",
            "It needs 5 GPUs at the same time; project 'speech' may hold 4 GPUs at most.",
        ),
        (asks(gpus=1.5), "gpus", "A worker uses whole GPUs or a part of one GPU; 1.5 is neither."),
        (
            asks(gpus=8, workers=3),
            "workers",
            "It needs 3 workers of 8 GPUs at the same time, and at most 2 can ever fit in the pool.",
        ),
        (
            asks(gpus=8, workers=2, require="node"),
            "workers",
            "It needs 2 workers of 8 GPUs at the same time, and at most 1 can ever fit in one node.",
        ),
        (
            asks(gpus=8, workers=3, require="rack"),
            "workers",
            "It needs 3 workers of 8 GPUs at the same time, and at most 2 can ever fit in one rack.",
        ),
        (
            asks("speech", gpus=5),
            "gpus",
            "It needs 5 GPUs at the same time; project 'speech' may hold 4 GPUs at most.",
        ),
        (
            asks("nlp", gpus=1, workers=8),
            "workers",
            "It needs 8 GPUs at the same time; project 'research' may hold 6 GPUs at most.",
        ),
        (
            asks(node_pools=("fats",)),
            "node_pools",
            "There is no node pool 'fats' for train workloads; did you mean 'fast'?",
        ),
        (
            asks(node_pools=("build",)),
            "node_pools",
            "There is no node pool 'build' for train workloads; available: train, fast.",
        ),
        (
            asks(gpu_types=("V100",)),
            "gpu_types",
            "No node in its node pools has GPUs of type V100; available: A100, H100.",
        ),
        (
            asks(gpu_memory=100 * 1024 + 700),
            "gpu_memory_gib",
            "A worker asks for 100.6 GiB of GPU memory, and the largest GPU here has 96 GiB.",
        ),
        (
            asks(cpus=200 * ONE),
            "cpus",
            "A worker asks for 200 CPUs, and the largest node in its node pools has 96; ask for no more.",
        ),
        (
            asks(memory=2048 * 1024),
            "memory_gib",
            "A worker asks for 2048 GiB of memory, and the largest node in its node pools has 1024 GiB; ask for no "
            "more.",
        ),
        (asks(require="block"), "require", "There is no topology 'block'; available: rack, node."),
        (
            asks(workers=2, min_workers=3),
            "min_workers",
            "min_workers is 3 and must be between 1 and workers, which is 2.",
        ),
    ],
)
def test_what_could_never_run_is_refused(request_: Request, field: str, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        admit_job(request_, PROGRAM, POOL, NODES)
    assert (refused.value.field, refused.value.sentence) == (field, sentence)


def test_a_pool_without_gpus_says_so() -> None:
    with pytest.raises(Invalid, match="There are no GPUs in its node pools"):
        admit_job(asks(gpus=1), PROGRAM, POOL, NODES[:1])


@pytest.mark.parametrize(
    ("shape", "workers"),
    [
        (Shape(ONE), 8),
        (Shape(3 * ONE), 2),
        (Shape(400), 16),
        (Shape(ONE, gpu_memory=30 * 1024), 16),
        (Shape(ONE, cpus=48 * ONE), 2),
        (Shape(ONE, memory=512 * 1024), 2),
    ],
)
def test_how_many_workers_an_empty_node_takes(shape: Shape, workers: int) -> None:
    assert capacity(shape, NODES[1]) == workers
