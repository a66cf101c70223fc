"""Estimated starts: the policy simulated over declared run times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from scheduler.model import Workload, WorkloadId
from scheduler.policy import Action, Snapshot, decide, forecast
from scheduler.policy.forecast import GRAIN, STEPS
from scheduler.policy.play import carry_out
from scheduler.scenario import read
from tests.policy.pools import snapshots


def starts(text: str) -> Mapping[WorkloadId, float]:
    (snapshot,) = read(text)
    return forecast(snapshot).starts


def test_jobs_start_one_after_another() -> None:
    assert starts("""
        nodes: [{name: n0, gpus: 1}]
        projects: [{name: a}]
        jobs:
          - {name: r, project: a, state: running, started: -40, expected_runtime: 100, placement: [{node: n0}]}
          - {name: second, project: a, submitted: -5, expected_runtime: 100}
          - {name: first, project: a, submitted: -9, expected_runtime: 30}
          - {name: last, project: a}
    """) == {"first": 60.0, "second": 90.0, "last": 190.0}


def test_a_job_without_a_run_time_has_no_expected_end() -> None:
    assert starts("""
        nodes: [{name: n0, gpus: 2}]
        projects: [{name: a}]
        jobs:
          - {name: r, project: a, state: running, started: -40, placement: [{node: n0, gpus: [0]}]}
          - name: s
            project: a
            state: running
            started: -40
            expected_runtime: 50
            placement: [{node: n0, gpus: [1]}]
          - {name: one, project: a, submitted: -9, expected_runtime: 5}
          - {name: both, project: a, gpus: 2, priority: 10}
    """) == {"one": 10.0}


def test_a_reclaim_starts_at_once_and_its_victim_when_there_is_room_again() -> None:
    assert starts("""
        nodes: [{name: n0, gpus: 1}]
        projects: [{name: over}, {name: due, guaranteed: 1}]
        jobs:
          - {name: v, project: over, state: running, started: -40, expected_runtime: 100, placement: [{node: n0}]}
          - {name: j, project: due, expected_runtime: 20}
    """) == {"j": 0.0, "v": 20.0}


def played(snapshot: Snapshot) -> dict[str, float]:
    """The simplest reference: every plan is computed from the whole snapshot."""
    begin, starts = snapshot.now, dict[str, float]()

    def end(workload: Workload) -> float:
        runtime = workload.request.expected_runtime
        if not workload.running or workload.stopping or runtime is None:
            return float("inf")
        return (begin if workload.started is None else workload.started) + runtime

    for _ in range(STEPS):
        plan = decide(snapshot)
        for id, decision in plan.changes.items():
            if decision.action is Action.START:
                starts.setdefault(id, snapshot.now)
        again = any(workload.stopping for workload in snapshot.workloads) or any(
            d.after or d.action not in (Action.START, Action.GROW) for d in plan.changes.values()
        )
        snapshot = carry_out(snapshot, plan)
        if again:
            continue
        at = min([end(workload) for workload in snapshot.workloads], default=float("inf"))
        first = max(snapshot.now, min(at, plan.again_at or float("inf")))
        if first == float("inf"):
            break
        last = first + GRAIN * (first - begin)
        now = max([first, *[end(workload) for workload in snapshot.workloads if end(workload) <= last]])
        left = tuple([workload for workload in snapshot.workloads if end(workload) > now])
        snapshot = replace(snapshot, now=now, workloads=left)
    return starts


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots(most_jobs=10))
def test_a_forecast_equals_repeated_plans(snapshot: Snapshot) -> None:
    assert dict(forecast(snapshot).starts) == played(snapshot)


def test_a_bounded_forecast_reports_its_horizon() -> None:
    jobs = "\n".join(f"  - {{name: j{n:03}, project: a, expected_runtime: 10}}" for n in range(STEPS + 9))
    (snapshot,) = read(f"nodes: [{{name: n0, gpus: 1}}]\nprojects: [{{name: a}}]\njobs:\n{jobs}")
    found = forecast(snapshot)
    assert found.until is not None
    assert sorted(found.starts.values()) == [10.0 * n for n in range(len(found.starts))]
    assert len(found.starts) == STEPS
    assert max(found.starts.values()) <= found.until


def test_a_reclaim_waits_until_its_victim_is_no_longer_protected() -> None:
    assert starts("""
        nodes: [{name: n0, gpus: 1}]
        projects: [{name: over}, {name: due, guaranteed: 1}]
        jobs:
          - {name: v, project: over, state: running, started: -40, min_runtime: 100, placement: [{node: n0}]}
          - {name: j, project: due}
    """) == {"j": 60.0}
