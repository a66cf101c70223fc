"""A job whose victims are on their way out keeps the places that the plan before promised it."""

from __future__ import annotations

from dataclasses import replace

from scheduler.model import WorkerPlacement
from scheduler.policy import Action, Snapshot, decide
from scheduler.scenario import read


def half_gone() -> Snapshot:
    """One of two victims has ended, the other is still on its way; an older job could use the GPU that is free."""
    (snapshot,) = read("""
        nodes: [{name: n0, gpus: 2}]
        projects: [{name: over}, {name: due, guaranteed: 2, created: 1}]
        jobs:
          - {name: v, project: over, state: stopping, started: -9, placement: [{node: n0, gpus: [0]}]}
          - {name: gang, project: due, gpus: 2}
          - {name: old, project: due, priority: 90, submitted: -99}
    """)
    return snapshot


def test_a_claim_is_honoured_before_anybody_else_is_asked() -> None:
    snapshot = half_gone()
    v, gang, old = snapshot.workloads
    claimed = replace(gang, placement=(WorkerPlacement("n0", (0, 1)),))
    plan = decide(replace(snapshot, workloads=(v, claimed, old)))
    assert plan.decisions["gang"].action is Action.START
    assert plan.decisions["gang"].after == ("v",)
    assert plan.decisions["old"].action is Action.WAIT


def test_without_a_claim_the_order_decides() -> None:
    plan = decide(half_gone())
    assert plan.decisions["old"].action is Action.START
    assert plan.decisions["gang"].action is Action.WAIT


def test_a_claim_to_what_is_not_there_is_no_claim() -> None:
    snapshot = half_gone()
    v, gang, old = snapshot.workloads
    for places in (WorkerPlacement("n9", (0, 1)), WorkerPlacement("n0", (1, 2))):
        plan = decide(replace(snapshot, workloads=(v, replace(gang, placement=(places,)), old)))
        assert plan.decisions["old"].action is Action.START
