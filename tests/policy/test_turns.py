"""Rule 7 of the design over time: jobs do not preempt each other in turns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    ONE,
    JobId,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    ProjectUsage,
    Request,
    Settings,
    Shape,
    Workload,
    held_by,
)
from scheduler.policy import Action, Snapshot, decide
from scheduler.policy.play import carry_out
from tests.policy.pools import snapshots

MINUTE, DAY = 60.0, 86_400.0


def equals() -> Snapshot:
    """Two equal projects on one GPU, each with a job that never ends."""
    work = tuple(Workload(JobId(name), Request(ProjectName(name), shape=Shape(ONE)), 0.0) for name in ("a", "b"))
    pool = Pool(projects=(Project(ProjectName("a")), Project(ProjectName("b"))), settings=Settings(time_aware=1.0))
    return Snapshot(0.0, pool, (Node(NodeName("n0"), 1),), work)


@pytest.mark.parametrize("half_life", [DAY / 24, DAY, 7 * DAY])
def test_projects_with_equal_recent_use_do_not_oscillate(
    half_life: float,
) -> None:
    """A plan a minute for a day: after the first, at most one stop per quarter of the half-life. Both get a share."""
    snapshot, stops = equals(), 0
    usage = {name: ProjectUsage(name) for name in (ProjectName("a"), ProjectName("b"))}
    while snapshot.now < DAY:
        recent = {name: used.average_at(snapshot.now, half_life) / ONE for name, used in usage.items()}
        plan = decide(replace(snapshot, usage=recent))
        stops += sum(decision.action is Action.STOP for decision in plan.changes.values())
        snapshot = carry_out(snapshot, plan)
        for workload in snapshot.workloads:
            project = workload.request.project
            used = usage[project]
            usage[project] = used.hold(held_by(workload.placement) - used.held, snapshot.now, half_life)
        snapshot = replace(snapshot, now=snapshot.now + MINUTE)
    assert stops <= 1 + 4 * DAY / half_life
    if half_life < DAY:
        shares = [used.average_at(DAY, half_life) / ONE for used in usage.values()]
        assert min(shares) > 0.4


many = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(snapshots(), st.lists(st.integers(1, 900), min_size=30, max_size=30))
def test_no_two_jobs_keep_preempting_each_other(snapshot: Snapshot, steps: list[int]) -> None:
    """Among the same jobs nobody who was stopped for another ever has that other stopped in its turn."""
    stopped_for: set[tuple[str, str]] = set()
    for step in steps:
        plan = decide(snapshot)
        for newcomer, decision in plan.decisions.items():
            for victim in decision.after:
                if plan.decisions[victim].action is Action.STOP:
                    assert (newcomer, victim) not in stopped_for, f"{newcomer} and {victim} take turns"
                    stopped_for.add((victim, newcomer))
        after = carry_out(snapshot, plan)
        snapshot = replace(after, now=snapshot.now + step)
