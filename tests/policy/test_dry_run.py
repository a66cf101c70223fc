"""The dry run of a submission."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from scheduler.model import Workload
from scheduler.policy import Action, DryRun, Snapshot, decide, dry_run
from scheduler.policy.play import carry_out
from scheduler.scenario import read
from tests.policy.pools import snapshots


def tried(text: str) -> DryRun:
    """The dry run of the job `new` of a scenario, before it was submitted."""
    (snapshot,) = read(text)
    return without(snapshot, next(workload for workload in snapshot.workloads if workload.id == "new"))


def without(snapshot: Snapshot, workload: Workload) -> DryRun:
    others = tuple([other for other in snapshot.workloads if other.id != workload.id])
    return dry_run(replace(snapshot, workloads=others), workload, lambda _: ())


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots(most_jobs=10))
def test_a_dry_run_equals_the_plan_with_the_job(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    then = carry_out(snapshot, plan)
    over = decide(then).stop_order.over_quota  # who is over quota once it has been carried out
    for workload in snapshot.workloads:
        if workload.running:
            continue
        found, decision = without(snapshot, workload), plan.decisions[workload.id]
        assert replace(found.decision, estimated_start=decision.estimated_start) == decision
        if decision.action is Action.START and not decide(then).changes:
            assert found.over_quota == (workload.id in over)


def test_a_job_within_the_guarantee_starts_once_another_has_made_room() -> None:
    found = tried("""
        nodes: [{name: n0, gpus: 2}]
        projects: [{name: over}, {name: due, guaranteed: 1}]
        jobs:
          - {name: v, project: over, gpus: 2, state: running, started: -40, placement: [{node: n0, gpus: [0, 1]}]}
          - {name: new, project: due}
    """)
    assert (found.decision.action, found.decision.after, found.over_quota) == (Action.START, ("v",), False)


def test_a_job_beyond_the_guarantee_starts_on_idle_gpus_over_quota() -> None:
    found = tried("""
        nodes: [{name: n0, gpus: 2}]
        projects: [{name: a, guaranteed: 1}]
        jobs:
          - {name: r, project: a, state: running, started: -40, placement: [{node: n0, gpus: [0]}]}
          - {name: new, project: a}
    """)
    assert (found.decision.action, found.decision.after, found.over_quota) == (Action.START, (), True)


def test_a_waiting_job_has_an_estimated_start_in_a_dry_run() -> None:
    found = tried("""
        nodes: [{name: n0, gpus: 1}]
        projects: [{name: a}]
        jobs:
          - {name: r, project: a, state: running, started: -40, expected_runtime: 100, placement: [{node: n0}]}
          - {name: w, project: a, submitted: -5, expected_runtime: 30}
          - {name: new, project: a}
    """)
    assert (found.decision.action, found.decision.estimated_start, found.until) == (Action.WAIT, 90.0, None)
