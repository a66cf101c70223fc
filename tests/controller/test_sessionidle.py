"""A session is idle while nothing known of it is active; one without information never is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller.sessionidle import FRESH, GpuActivity, ServerActivity, SessionIdleness, idle_since
from scheduler.model import (
    GpuKey,
    NodeName,
    Session,
    SessionId,
    SessionState,
    Shape,
    UserName,
    WorkerPlacement,
    session_request,
)
from scheduler.telemetry import GpuUsage

NOW = 1e6
times = st.floats(NOW - 1e5, NOW)
activities = st.builds(GpuActivity, in_use=st.booleans(), idle_since=st.none() | times)
servers = st.builds(ServerActivity, told=times, busy=st.booleans(), last=st.none() | times)


@given(times, activities, st.none() | servers)
def test_it_is_idle_since_some_time_between_its_start_and_now_and_only_if_nothing_is_active(
    started: float, gpus: GpuActivity, server: ServerActivity | None
) -> None:
    found = idle_since(started, gpus, server, NOW)
    fresh = server if server is not None and NOW - server.told <= FRESH else None
    active = gpus.in_use or (fresh is not None and fresh.busy)
    known = gpus.idle_since is not None or fresh is not None
    assert (found is not None) == (known and not active)
    assert found is None or started <= found <= NOW


@given(times, activities, servers, times)
def test_a_later_activity_makes_it_idle_no_earlier(
    started: float, gpus: GpuActivity, server: ServerActivity, later: float
) -> None:
    before = idle_since(started, gpus, server, NOW)
    after = idle_since(started, gpus, replace(server, last=max(later, server.last or later)), NOW)
    assert (before is None) == (after is None)
    assert before is None or after is None or after >= before


@given(times, servers, times)
def test_an_old_report_counts_for_nothing(started: float, server: ServerActivity, idle: float) -> None:
    old = replace(server, told=NOW - FRESH - 1)
    assert idle_since(started, GpuActivity(), old, NOW) is None
    assert idle_since(started, GpuActivity(idle_since=idle), old, NOW) == max(started, idle)


def leased(*gpus: int) -> Session:
    return Session(
        SessionId("s"),
        "",
        session_request(UserName("ann"), Shape()),
        requested=0.0,
        state=SessionState.LEASED,
        placement=(WorkerPlacement(NodeName("n"), gpus),),
        started=0.0,
    )


IDLE, WORKING, UNKNOWN = GpuUsage(0.0, 1, 2), GpuUsage(0.9, 1, 2), GpuUsage(None, 1, 2)


@pytest.mark.parametrize(
    ("first", "then", "since"),
    [
        ((IDLE, IDLE), (IDLE, IDLE), 10.0),
        ((WORKING, IDLE), (IDLE, IDLE), 20.0),
        ((IDLE, IDLE), (IDLE, WORKING), None),
        ((IDLE, IDLE), (IDLE, UNKNOWN), None),
        ((IDLE, IDLE), (IDLE, None), None),
    ],
)
def test_its_gpus_are_idle_since_the_first_look_that_saw_none_in_use(
    first: tuple[GpuUsage | None, ...], then: tuple[GpuUsage | None, ...], since: float | None
) -> None:
    idleness, session = SessionIdleness(), leased(0, 1)
    for now, uses in ((10.0, first), (20.0, then)):
        usage = {GpuKey((NodeName("n"), gpu)): use for gpu, use in enumerate(uses) if use is not None}
        idleness.look([session], usage, now)
    assert idleness.since(session, 30.0) == since


def test_what_was_told_of_a_session_ends_with_it() -> None:
    idleness, session = SessionIdleness(), leased(0)
    idleness.tell(session.id, ServerActivity(10.0, busy=False, last=5.0))
    assert idleness.since(session, 20.0) == 5.0
    idleness.look([], {}, 20.0)
    assert idleness.since(session, 20.0) is None
