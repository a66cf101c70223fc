"""The rules hold in every step of a stream of arrivals, ends, failures, returns and changed guarantees."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.policy import Snapshot, decide
from tests.policy.pools import busy, snapshots
from tests.policy.rules import RULES
from tests.policy.streams import Stream, events, leaves

many = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("pools", [snapshots(most_jobs=8), busy()], ids=["odd", "busy"])
@many
@given(st.data())
def test_the_rules_hold_at_every_step(pools: st.SearchStrategy[Snapshot], data: st.DataObject) -> None:
    stream = Stream(data.draw(pools))
    for event in data.draw(events(leaves(stream.snapshot))):
        plan = decide(stream.snapshot)
        for rule in RULES:
            rule(stream.snapshot, plan)
        stream.carry_out(plan)
        stream.happens(event)
