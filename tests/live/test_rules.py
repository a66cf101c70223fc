"""Each key of a policy (defaults, maxima, allowed values) takes effect through the running service."""

from __future__ import annotations

import time
from typing import Any

import pytest

from scheduler.controller import controller
from scheduler.model import GpuKey, GpuType, JobState, Node, NodeName, NodePoolName
from scheduler.telemetry import GpuUsage
from tests.live.conftest import Live, Open

NODE_POOLS = [{"name": "train", "environment": "train"}, {"name": "big", "environment": "train"}]
TYPES = (
    Node(NodeName("n1"), gpus=4, gpu_type=GpuType("H100")),
    Node(NodeName("n2"), gpus=4, gpu_type=GpuType("A100"), node_pool=NodePoolName("big")),
)
"""By default, jobs start on n1 first."""


async def with_defaults(open_pool: Open, *nodes: Node, **defaults: Any) -> Live:
    projects = [{"name": "vision", "guaranteed": 4, "members": ["*"]}]
    return await open_pool(*(nodes or TYPES), node_pools=NODE_POOLS, projects=projects, policy={"defaults": defaults})


# -- defaults -----------------------------------------------------------------------------------------------


async def test_a_job_that_says_nothing_gets_the_default_gpus(open_pool: Open) -> None:
    live = await with_defaults(open_pool, gpus=3)
    job = await live.job(await live.submit())
    assert len(job["attempts"][0]["workers"][0]["gpus"]) == 3


@pytest.mark.parametrize(("key", "amount"), [("cpus", 3), ("memory_gib", 10)])
async def test_a_default_of_cpus_or_memory_fills_a_node(open_pool: Open, key: str, amount: float) -> None:
    live = await with_defaults(open_pool, Node(NodeName("n1"), gpus=4, cpus=4000, memory=16 * 1024), **{key: amount})
    jobs = await live.submit_all({}, {})
    assert await live.runs(*jobs) == jobs[:1]


async def test_the_default_priority_comes_before_a_lower_one(open_pool: Open) -> None:
    live = await with_defaults(open_pool, Node(NodeName("n1"), gpus=1), priority=70)
    first, lower, default = await live.submit_all({}, {"priority": 60}, {})
    assert await live.runs(first) == [first]
    live.end(first)
    assert await live.runs(lower, default) == [default]


async def test_the_default_of_preemptible_bounds_jobs_by_the_guarantee(open_pool: Open) -> None:
    live = await with_defaults(open_pool, preemptible=False)
    assert (await live.job(await live.submit()))["preemptible"] is False
    assert await live.refuses(gpus=4, workers=2) == "preemptible"


@pytest.mark.parametrize(("min_runtime", "starts"), [(0, True), (3600, False)])
async def test_a_default_min_runtime_protects_from_reclaim(open_pool: Open, min_runtime: float, starts: bool) -> None:
    projects = [{"name": "a", "members": ["*"]}, {"name": "b", "guaranteed": 1, "members": ["*"]}]
    policy = {"defaults": {"min_runtime": min_runtime}}
    live = await open_pool(Node(NodeName("n1"), gpus=1), node_pools=NODE_POOLS, projects=projects, policy=policy)
    over = await live.submit(project="a")
    assert await live.runs(over) == [over]
    due = await live.submit(project="b")
    assert await live.runs(over, due) == [due if starts else over]


async def test_a_default_max_runtime_ends_a_job(open_pool: Open) -> None:
    live = await with_defaults(open_pool, max_runtime=0.05)
    job = await live.submit()
    await live.service.until(job, JobState.FAILED)
    assert (await live.job(job))["attempts"][-1]["ending"] == "overran"


async def test_a_default_idle_timeout_ends_a_job_whose_gpus_stand_idle(
    open_pool: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "LOOK", 0.01)
    opened = time.monotonic()
    monkeypatch.setattr(controller, "monotonic", lambda: opened + 100 * (time.monotonic() - opened))
    projects, policy = [{"name": "vision", "members": ["*"]}], {"defaults": {"idle_timeout": 60}}
    live = await open_pool(Node(NodeName("n1"), gpus=1), node_pools=NODE_POOLS, projects=projects, policy=policy)
    live.bench.machines.use = {GpuKey((NodeName("n1"), 0)): GpuUsage(0.0, 1, 2)}
    job = await live.submit()
    await live.service.until(job, JobState.FAILED)
    assert (await live.job(job))["attempts"][-1]["ending"] == "idle"


async def test_the_default_grace_applies_to_a_stop(open_pool: Open) -> None:
    live = await with_defaults(open_pool, grace=7)
    job = await live.submit()
    assert await live.runs(job) == [job]
    assert (await live.service.http["owner"].post(f"jobs/{job}/cancel")).is_success
    await live.service.until(job, JobState.CANCELLED)
    assert live.bench.engine.stops == [(job, 1, 7.0)]


async def test_the_default_retries_are_tried(open_pool: Open) -> None:
    live = await with_defaults(open_pool, retries=1)
    job = await live.submit()
    for attempts in (1, 2):
        assert len((await live.job(job))["attempts"]) == attempts
        live.end(job, code=1)
    assert (await live.job(job))["state"] == "failed"


@pytest.mark.parametrize("default", [{"gpu_types": ["A100"]}, {"node_pools": ["big"]}])
async def test_default_gpu_types_and_node_pools_restrict_a_job(open_pool: Open, default: dict[str, Any]) -> None:
    live = await open_pool(*TYPES, node_pools=NODE_POOLS)
    assert await live.nodes_of(await live.submit()) == ["n1"]
    await live.apply(node_pools=NODE_POOLS, policy={"defaults": default})
    assert await live.nodes_of(await live.submit()) == ["n2"]


# -- maxima and allowed values ------------------------------------------------------------------------------

BIG = Node(NodeName("n1"), gpus=8, cpus=64_000, memory=512 * 1024)


@pytest.mark.parametrize(
    ("maxima", "allowed", "refused", "field"),
    [
        ({"gpus": 2}, {"gpus": 2}, {"gpus": 3}, "gpus"),
        ({"cpus": 2}, {"cpus": 2}, {"cpus": 3}, "cpus"),
        ({"memory_gib": 2}, {"memory_gib": 2}, {"memory_gib": 3}, "memory_gib"),
        ({"total_gpus": 4}, {"gpus": 2, "workers": 2}, {"gpus": 2, "workers": 3}, "workers"),
        ({"workers": 2}, {"workers": 2}, {"workers": 3}, "workers"),
        ({"priority": 60}, {"priority": 60}, {"priority": 61}, "priority"),
        ({"min_runtime": 60}, {"min_runtime": 60}, {"min_runtime": 61}, "min_runtime"),
        ({"max_runtime": 60}, {"max_runtime": 60}, {"max_runtime": 61}, "max_runtime"),
        ({"idle_timeout": 60}, {"idle_timeout": 60}, {"idle_timeout": 61}, "idle_timeout"),
        ({"grace": 60}, {"grace": 60}, {"grace": 61}, "grace"),
        ({"retries": 1}, {"retries": 1}, {"retries": 2}, "retries"),
    ],
)
async def test_no_job_asks_for_more_than_a_maximum(
    open_pool: Open, maxima: dict[str, Any], allowed: dict[str, Any], refused: dict[str, Any], field: str
) -> None:
    live = await open_pool(BIG, node_pools=NODE_POOLS, policy={"maxima": maxima})
    assert await live.submit(**allowed)
    assert await live.refuses(**refused) == field


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ({"gpu_types": ["A100"]}, {"gpu_types": ["H100"]}),
        ({"node_pools": ["big"]}, {"node_pools": ["train"]}),
        ({"preemptible": [True]}, {"preemptible": False}),
    ],
)
async def test_a_job_chooses_among_the_allowed_values(
    open_pool: Open, allowed: dict[str, Any], refused: dict[str, Any]
) -> None:
    live = await open_pool(*TYPES, node_pools=NODE_POOLS, policy={"allowed": allowed})
    assert [await live.refuses(**refused)] == list(refused)
    where = "n1" if "preemptible" in allowed else "n2"
    assert await live.nodes_of(await live.submit()) == [where]


async def test_the_policy_of_a_project_counts_for_it_and_for_those_below_it(open_pool: Open) -> None:
    projects = [
        {"name": "research", "policy": {"maxima": {"gpus": 1}, "defaults": {"priority": 70}}},
        {
            "name": "vision",
            "parent": "research",
            "members": ["*"],
            "policy": {"allowed": {"preemptible": [True]}},
        },
        {"name": "speech", "members": ["*"]},
    ]
    live = await open_pool(BIG, node_pools=NODE_POOLS, projects=projects)
    assert await live.refuses(project="vision", gpus=2) == "gpus"
    assert await live.refuses(project="vision", preemptible=False) == "preemptible"
    inside, outside = await live.submit_all({"project": "vision"}, {"project": "speech", "gpus": 2})
    assert [(await live.job(job))["priority"] for job in (inside, outside)] == [70, 50]
