"""When a running job is restarted with more workers, and when it continues unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.model import GpuType, JobId, NodeName, ProjectName, Quota, Settings
from scheduler.policy import Action, Decision, Plan, Snapshot, decide
from scheduler.policy.play import carry_out
from scheduler.scenario import read

A100 = GpuType("A100")


def pool(interval: float = 300, **job: Any) -> Snapshot:
    """A job of one to four workers has run for 400 s and saved its state; three GPUs are idle."""
    (snapshot,) = read(f"""
        nodes: [{{name: n0, gpus: 4}}]
        projects: [{{name: a}}]
        jobs:
          - {{name: e, project: a, workers: 4, min_workers: 1, state: running, started: -400, checkpointed: -10,
             placement: [{{node: n0, gpus: [0]}}]}}
        settings: {{resize_interval: {interval}}}
    """)
    (running,) = snapshot.workloads
    request = {key: job.pop(key) for key in list(job) if hasattr(running.request, key)}
    running = replace(running, request=replace(running.request, **request), **job)
    return replace(snapshot, workloads=(running,))


def decided(snapshot: Snapshot) -> tuple[Plan, Decision]:
    plan = decide(snapshot)
    return plan, plan.decisions[JobId("e")]


def test_an_elastic_job_grows_once_it_has_run_for_long_enough() -> None:
    _, decision = decided(pool(300))
    assert (decision.action, len(decision.placement)) == (Action.GROW, 4)


def test_a_job_is_planned_again_when_it_may_grow_and_does_not_grow_earlier() -> None:
    plan, decision = decided(pool(500))
    assert (decision.action, plan.again_at) == (Action.KEEP, 100.0)


def test_it_is_not_planned_again_without_gpus_to_grow_on() -> None:
    snapshot = pool(500)
    (node,) = snapshot.nodes
    plan, decision = decided(replace(snapshot, nodes=(replace(node, gpus=1),)))
    assert (decision.action, plan.again_at) == (Action.KEEP, None)


def test_it_does_not_grow_within_its_minimum_run_time() -> None:
    plan, decision = decided(pool(300, min_runtime=1000.0))
    assert (decision.action, plan.again_at) == (Action.KEEP, 600.0)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"checkpointed": None}, id="never saved"),
        pytest.param({"started": None}, id="only starting"),
        pytest.param({"expected_runtime": 600.0}, id="about to end"),
    ],
)
def test_it_is_not_restarted_where_that_would_lose_more_than_it_gains(job: dict[str, Any]) -> None:
    plan, decision = decided(pool(300, **job))
    assert (decision.action, plan.again_at) == (Action.KEEP, None)


def test_a_job_that_exceeds_its_expected_run_time_may_run_for_long() -> None:
    _, decision = decided(pool(300, expected_runtime=350.0))
    assert decision.action is Action.GROW


def test_where_a_restart_costs_nothing_it_grows_at_once() -> None:
    _, decision = decided(pool(0, checkpointed=None, started=0.0))
    assert decision.action is Action.GROW
    (scenario,) = read("{nodes: [], projects: [{name: a}], jobs: []}")
    assert scenario.pool.settings.resize_interval == 0, "The plan of a file is carried out for nothing."
    assert Settings().resize_interval == 300


def test_a_waiting_elastic_job_starts_as_large_as_possible() -> None:
    snapshot = pool(300)
    (job,) = snapshot.workloads
    waiting = replace(job, running=False, started=None, checkpointed=None, placement=())
    _, decision = decided(replace(snapshot, workloads=(waiting,)))
    assert (decision.action, len(decision.placement)) == (Action.START, 4)


def test_shrinking_is_never_delayed() -> None:
    snapshot = carry_out(pool(300), decide(pool(300)))
    (project,) = snapshot.pool.projects
    pools = replace(
        snapshot.pool, projects=(project, replace(project, name=ProjectName("b"), guaranteed=2000, created=1.0))
    )
    (job,) = snapshot.workloads
    newcomer = replace(
        job,
        id=JobId("n"),
        request=replace(job.request, project=ProjectName("b"), workers=2, min_workers=2),
        running=False,
        started=None,
        checkpointed=None,
        placement=(),
    )
    plan, decision = decided(replace(snapshot, pool=pools, workloads=(job, newcomer)))
    assert (decision.action, len(decision.placement)) == (Action.SHRINK, 2)
    assert plan.decisions[JobId("n")].after == ("e",)


def test_a_job_that_could_not_restart_in_its_places_does_not_grow() -> None:
    """Its project's limit there was lowered after the nomination."""
    snapshot = pool(300)
    (project,) = snapshot.pool.projects
    nodes = (
        replace(snapshot.nodes[0], gpus=1, gpu_type=A100),
        replace(snapshot.nodes[0], name=NodeName("n1")),
    )
    limited = replace(project, quotas=(Quota(limit=500, gpu_type=A100),))
    pools = replace(snapshot.pool, projects=(limited,))
    _, decision = decided(replace(snapshot, nodes=nodes, pool=pools))
    assert decision.action is Action.KEEP
