"""Why a job waits, as sentences and as data."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import GpuType, ProjectName, UserName
from scheduler.policy.blocking import (
    AboveShare,
    AtLimit,
    NeverFits,
    NoBuildGpu,
    NoCapacity,
    NoDomain,
    NoGpuOfType,
    NoQueue,
    OutsideGuarantee,
    OverBuildQuota,
    PolicyBlocker,
    Reserved,
    as_json,
    names,
    sentence,
)

FAST = ("fast", "A100")

TOLD: list[tuple[PolicyBlocker, str, dict[str, Any]]] = [
    (
        AtLimit(ProjectName("p"), 3000, 2000, 2000, FAST),
        "Project p uses 2 GPUs of type A100 in node pool fast; its limit is 3. This job needs 2 more.",
        {
            "kind": "limit",
            "project": "p",
            "limit": 3,
            "allocated": 2,
            "asked": 2,
            "node_pool": "fast",
            "gpu_type": "A100",
        },
    ),
    (
        OutsideGuarantee(ProjectName("p"), 4000, 3500, 1000),
        "Jobs that can't be preempted must stay inside their project's guarantee. Project p is guaranteed 4 GPUs; such "
        "jobs "
        "use 3.5 of them, and this job needs 1.",
        {"kind": "guarantee", "project": "p", "guaranteed": 4, "allocated": 3.5, "asked": 1},
    ),
    (
        NoGpuOfType("2 GPUs", (GpuType("A100"), GpuType("H100")), exists=False),
        "Needs GPUs of type A100 or H100. No node that this job may use has them.",
        {"kind": "gpu_type", "gpu_types": ["A100", "H100"]},
    ),
    (
        NoGpuOfType("2 GPUs", (GpuType("A100"),), exists=True),
        "Needs 2 GPUs of type A100. All GPUs of this type are in use.",
        {"kind": "gpu_type", "gpu_types": ["A100"]},
    ),
    (
        NoDomain("2 workers of 4 GPUs each", "rack", 8000, ever=True),
        "Needs 2 workers of 4 GPUs each in one rack. No rack has that much free.",
        {"kind": "topology", "level": "rack", "asked": 8, "ever": True},
    ),
    (
        NoDomain("8 GPUs", "node", 8000, ever=False),
        "Needs 8 GPUs on one node. No node is large enough.",
        {"kind": "topology", "level": "node", "asked": 8, "ever": False},
    ),
    (
        NeverFits("16 GPUs", 16_000),
        "Needs 16 GPUs. The nodes that this job may use are too small or too few, even when idle.",
        {"kind": "capacity", "asked": 16, "ever": False},
    ),
    (
        NoCapacity("4 GPUs", 4000, 0, one_node=True),
        "Needs 4 GPUs on one node. None are free, and no running job can be stopped for it.",
        {"kind": "capacity", "asked": 4, "free": 0},
    ),
    (
        NoCapacity("4 GPUs", 4000, 5000, one_node=True),
        "Needs 4 GPUs on one node. 5 GPUs are free, but not together or not with the CPUs and memory it needs, and no "
        "running job can be stopped for it.",
        {"kind": "capacity", "asked": 4, "free": 5},
    ),
    (
        NoCapacity("8 CPUs", 0, 1000, one_node=False),
        "Needs 8 CPUs. No node that it may use has enough CPUs and memory free, and no running job can be stopped for "
        "it.",
        {"kind": "capacity", "asked": 0, "free": 1},
    ),
    (
        NoBuildGpu("1 GPU", 1000, 500),
        "This session needs 1 GPU. 0.5 GPUs are free in the build environment.",
        {"kind": "capacity", "asked": 1, "free": 0.5},
    ),
    (
        Reserved("1 GPU", "gang", 1000, 1000),
        "Needs 1 GPU. 1 GPU is free, but the suitable ones are reserved for gang, which is ahead in the queue and "
        "waits for more GPUs.",
        {"kind": "reservation", "for": "gang", "asked": 1, "free": 1},
    ),
    (
        AboveShare("2 GPUs", ProjectName("p"), 1000, 2000, 2000, 0),
        "Needs 2 GPUs. None are free. Project p uses 2 GPUs; its fair share is 1. Beyond it, it may only use idle "
        "GPUs.",
        {"kind": "fair_share", "project": "p", "fair_share": 1, "allocated": 2, "asked": 2, "free": 0},
    ),
    (
        OverBuildQuota(UserName("ana"), 1000, 500, 1000),
        "ana has a fixed quota of 1 GPU for notebooks and uses 0.5; this session needs 1. Close another session "
        "or ask for less.",
        {"kind": "quota", "user": "ana", "quota": 1, "allocated": 0.5, "asked": 1},
    ),
    (
        NoQueue(ProjectName("p")),
        "Project p takes no jobs: it does not exist or has projects below it. Submit to another one.",
        {"kind": "project", "project": "p"},
    ),
]


@pytest.mark.parametrize(
    ("blocker", "told", "printed"), TOLD, ids=[f"{type(each[0]).__name__}-{n}" for n, each in enumerate(TOLD)]
)
def test_the_sentence_of_each_blocker(blocker: PolicyBlocker, told: str, printed: dict[str, Any]) -> None:
    assert sentence(blocker) == told
    assert as_json(blocker) == printed


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (("a",), "a"),
        (("a", "b"), "a and b"),
        (("a", "b", "c"), "a, b and c"),
        (tuple("abcde"), "a, b and 3 others"),
    ],
)
def test_long_lists_of_names_are_shortened(ids: tuple[str, ...], words: str) -> None:
    assert names(ids) == words
