"""A snapshot written as a scenario and read back leads to the same decisions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import NodeName, WorkerPlacement
from scheduler.policy import Action, Plan, Snapshot, decide
from scheduler.policy.play import carry_out
from scheduler.scenario import plan_as_json, read, scenario_of, without_defaults
from tests.policy.pools import snapshots
from tests.policy.test_lent import lent


def written(snapshot: Snapshot) -> str:
    return json.dumps(without_defaults(scenario_of(snapshot)))


def decided(plan: Plan, now: float) -> Any:
    """A plan as printed, with times relative to the snapshot."""
    found = plan_as_json(plan)
    for job in found["jobs"].values():
        if job.get("estimated_start") is not None:
            job["estimated_start"] -= now
    again = None if plan.again_at is None else plan.again_at - now
    return found, again


@given(snapshots() | lent())
def test_a_restored_snapshot_leads_to_the_same_decisions(snapshot: Snapshot) -> None:
    (again,) = read(written(snapshot))
    assert decided(decide(again), 0.0) == decided(decide(snapshot), snapshot.now)


@given(snapshots(), st.integers(0, 2000))
def test_a_restored_snapshot_of_a_planned_pool_leads_to_the_same_decisions(snapshot: Snapshot, later: int) -> None:
    """Here there are jobs that were preempted, and jobs that were promised places."""
    plan = decide(snapshot)
    promised = {id: d.placement for id, d in plan.changes.items() if d.action is Action.START and d.after}
    snapshot = carry_out(snapshot, plan)
    workloads = tuple(
        replace(w, running=False, started=None, placement=(), nomination=promised[w.id]) if w.id in promised else w
        for w in snapshot.workloads
    )
    snapshot = replace(snapshot, now=snapshot.now + later, workloads=workloads)
    (again,) = read(written(snapshot))
    assert [w.preempted is not None for w in again.workloads] == [w.preempted is not None for w in workloads]
    assert [w.placement for w in again.workloads] == [w.placement for w in workloads]
    assert {w.id: w.nomination for w in again.workloads if w.id in promised} == promised
    assert decided(decide(again), 0.0) == decided(decide(snapshot), snapshot.now)


@given(snapshots(most_jobs=6))
def test_a_snapshot_survives_a_round_trip_through_yaml(snapshot: Snapshot) -> None:
    text = written(snapshot)
    (from_json,) = read(text)
    (from_yaml,) = read(yaml.safe_dump(json.loads(text), default_flow_style=None, sort_keys=False))
    assert from_yaml == from_json
    assert written(from_json) == text


def test_a_worker_on_a_removed_node_has_no_placement() -> None:
    (snapshot,) = read("""
        nodes: [{name: n0, gpus: 2}]
        projects: [{name: a}]
        jobs: [{name: j, project: a, workers: 2, state: running, started: -9, placement: [{node: n0}, {node: n0}]}]
    """)
    (job,) = snapshot.workloads
    gone = replace(job, placement=(job.placement[0], WorkerPlacement(NodeName("n1"), (0,))))
    (again,) = read(written(replace(snapshot, workloads=(gone,))))
    assert again.workloads[0].placement == job.placement[:1]
