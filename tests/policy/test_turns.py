"""Rule 7 of the design as time goes by: nobody is stopped in turns."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.policy import Action, Snapshot, decide
from scheduler.policy.play import carry_out
from tests.policy.pools import snapshots

many = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(snapshots(), st.lists(st.integers(1, 900), min_size=30, max_size=30))
def test_no_two_jobs_take_turns_as_time_goes_by(snapshot: Snapshot, steps: list[int]) -> None:
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
