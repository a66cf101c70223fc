"""No server is stopped without a warning and the whole grace after it; an idle one only if it was idle all the time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller.serverstops import SAME, IdleServer, StopWarning, server_stops
from scheduler.model import IdleAction, IdleRules, SessionId, Settings

TIMEOUT, GRACE = 100.0, 50.0
SETTINGS = Settings(session_idle_timeout=TIMEOUT, session_idle_grace=GRACE)
RULES = IdleRules(TIMEOUT, GRACE, 0.0, IdleAction.STOP)
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
        idle = {} if what == "unknown" else {ONE: IdleServer(last, RULES)}
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
    never = IdleRules(0.0, GRACE, 0.0, IdleAction.STOP)
    found = server_stops(before, {ONE: IdleServer(since, never)}, {ONE: since}, Settings(), now)
    assert not found.warnings
    assert not found.due


LONGEST, LENT = 300.0, 120.0


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
        idle = {} if what == "unknown" else {ONE: IdleServer(last, RULES)}
        before, found = warnings.get(ONE), server_stops(warnings, idle, {ONE: start}, settings, now)
        warnings = dict(found.warnings)
        if now >= start + LONGEST - GRACE:
            assert warnings[ONE].stops_at <= max(start + LONGEST, warnings[ONE].told + GRACE)
        for due in found.due:
            assert before is not None
            assert now - before.told >= GRACE - 1e-6
            assert now >= start + (LONGEST if due.longest else TIMEOUT + GRACE) - 1e-6


@given(steps, st.sampled_from(IdleAction), st.booleans())
def test_gpus_are_lent_and_taken_back_only_after_a_whole_grace_of_idleness(
    looks: list[tuple[float, str]], action: IdleAction, restarts: bool
) -> None:
    """One step after the other, each once, and lent for the whole time that the rules say; also if the scheduler, which
    remembers only that they are lent, restarts meanwhile."""
    rules = IdleRules(TIMEOUT, GRACE, LENT, action)
    now = last = 1e6
    lent: float | None = None
    warnings: dict[SessionId, StopWarning] = {}
    for pause, what in looks:
        now += pause
        if what == "used":
            last, lent = now, None
        if restarts and what == "unknown":
            warnings = {}
        idle = {ONE: IdleServer(last, rules, lent)}
        before, found = warnings.get(ONE), server_stops(warnings, idle, {}, Settings(), now)
        warnings = dict(found.warnings)
        if found.lend or found.due:
            assert before is not None
            assert last <= before.since + SAME
            assert now - before.told >= GRACE - 1e-6
        if found.lend:
            assert lent is None
            lent = now
        if found.due:
            assert before is not None
            assert before.takes_back == (action is IdleAction.TAKE_BACK)
            assert lent is None or now - lent >= LENT - max(pause for pause, _ in looks)
            return
