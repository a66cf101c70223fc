"""No server is stopped without a warning and the whole grace after it; an idle one only if it was idle all the time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller.serverstops import SAME, StopWarning, server_stops
from scheduler.model import SessionId, Settings

TIMEOUT, GRACE = 100.0, 50.0
SETTINGS = Settings(session_idle_timeout=TIMEOUT, session_idle_grace=GRACE)
ONE = SessionId("one")

steps = st.lists(st.tuples(st.floats(0.1, 80), st.sampled_from(["idle", "used", "unknown"])), max_size=30)


@given(steps)
def test_a_server_is_stopped_only_after_a_whole_grace_of_idleness(looks: list[tuple[float, str]]) -> None:
    now = last = 1e6
    warnings: dict[SessionId, StopWarning] = {}
    for pause, what in looks:
        now += pause
        if what == "used":
            last = now
        idle = {} if what == "unknown" else {ONE: last}
        before, found = warnings.get(ONE), server_stops(warnings, idle, {ONE: 1e6}, SETTINGS, now)
        warnings = dict(found.warnings)
        assert (ONE in warnings) == (ONE in idle and now - last >= TIMEOUT)
        if found.due:
            assert before is not None
            assert last <= before.since + SAME
            assert now - before.told >= GRACE - 1e-6
            assert now - last >= TIMEOUT + GRACE - 1e-6


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_without_a_timeout_nobody_is_warned(since: float, now: float) -> None:
    before = {ONE: StopWarning(ONE, since, since, since)}
    found = server_stops(before, {ONE: since}, {ONE: since}, Settings(), now)
    assert not found.warnings
    assert not found.due


LONGEST = 300.0


@given(steps)
def test_a_server_is_stopped_at_the_longest_duration_or_a_whole_grace_after_its_warning(
    looks: list[tuple[float, str]],
) -> None:
    """Whether it is used or not, and also if it was found late."""
    settings = Settings(session_idle_timeout=TIMEOUT, session_idle_grace=GRACE, session_max_duration=LONGEST)
    now = last = start = 1e6
    warnings: dict[SessionId, StopWarning] = {}
    for pause, what in looks:
        now += pause
        if what == "used":
            last = now
        idle = {} if what == "unknown" else {ONE: last}
        before, found = warnings.get(ONE), server_stops(warnings, idle, {ONE: start}, settings, now)
        warnings = dict(found.warnings)
        if now >= start + LONGEST - GRACE:
            assert warnings[ONE].stops_at <= max(start + LONGEST, warnings[ONE].told + GRACE)
        for due in found.due:
            assert before is not None
            assert now - before.told >= GRACE - 1e-6
            assert now >= start + (LONGEST if due.longest else TIMEOUT + GRACE) - 1e-6
