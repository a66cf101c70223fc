"""A session's life cycle: it waits for a plan, holds its lease, and ends with its server or its node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.controller import session_lifecycle
from scheduler.controller.session_lifecycle import Refuse, SeatSession, Step
from scheduler.errors import Conflict, Unavailable
from scheduler.model import JobId, Node, NodeName, Session, SessionState, UserName, WorkerPlacement
from scheduler.policy import Action, Decision
from scheduler.policy.blocking import OverBuildQuota
from tests.controller.stage import make_session

NOW = 1000.0
PLACED = (WorkerPlacement(NodeName("box-build"), (0,)),)
THERE = {NodeName("box-build"): Node(NodeName("box-build"), gpus=1)}


def leased() -> Session:
    return session_lifecycle.lease(make_session(), PLACED, NOW).session


def error(step: Step) -> Exception:
    (instruction,) = step.do
    assert isinstance(instruction, Refuse)
    assert step.session.state is SessionState.ENDED
    return instruction.error


def test_a_plan_leases_gpus_and_the_caller_is_answered() -> None:
    step = session_lifecycle.lease(make_session(), PLACED, NOW)
    assert (step.session.state, step.session.placement) == (SessionState.LEASED, PLACED)
    assert step.do == (SeatSession(),)


@pytest.mark.parametrize(
    ("blocked_by", "refusal"), [(OverBuildQuota(UserName("ana"), 1000, 1000, 1000), Conflict), (None, Unavailable)]
)
def test_a_plan_that_has_no_gpus_for_it_refuses_it(blocked_by: OverBuildQuota | None, refusal: type[Exception]) -> None:
    decision = Decision(Action.WAIT, "Nothing is free.", blocked_by=blocked_by)
    found = error(session_lifecycle.pass_over(make_session(), decision, NOW))
    assert type(found) is refusal
    assert str(found) == "Nothing is free."


def test_it_waits_for_released_gpus_and_is_refused_with_the_reason() -> None:
    decision = Decision(Action.START, "Its GPU is lent to job7.", after=(JobId("job7"),))
    step = session_lifecycle.pass_over(make_session(), decision, NOW)
    assert (step.session.state, step.do) == (SessionState.REQUESTED, ())
    assert "Its GPU is lent to job7." in str(error(session_lifecycle.time_out(step.session, NOW + 60)))


def test_a_lease_outlives_plans_deadlines_and_the_scheduler() -> None:
    session = leased()
    decision = Decision(Action.WAIT, "Nothing is free.")
    for step in (
        session_lifecycle.lease(session, (), NOW),
        session_lifecycle.pass_over(session, decision, NOW),
        session_lifecycle.time_out(session, NOW),
        session_lifecycle.abandon(session, NOW),
        session_lifecycle.observe_nodes(session, NOW, THERE),
    ):
        assert step == Step(session)


def test_it_ends_once_with_its_server_or_its_node() -> None:
    closed = session_lifecycle.close(leased(), NOW + 1).session
    gone = session_lifecycle.observe_nodes(leased(), NOW + 1, {}).session
    assert (closed.state, closed.ended) == (gone.state, gone.ended) == (SessionState.ENDED, NOW + 1)
    assert session_lifecycle.close(closed, NOW + 2) == Step(closed)
    assert (closed.reason, gone.reason) == ("Its server stopped.", "Its node is gone.")


def test_it_does_not_wait_for_a_gpu_that_is_gone_while_it_lends_it() -> None:
    lends = session_lifecycle.recall(session_lifecycle.lend(leased(), NOW + 1).session, NOW + 2).session
    assert session_lifecycle.observe_nodes(lends, NOW + 3, THERE) == Step(lends)
    without = {name: replace(node, gpus=0) for name, node in THERE.items()}
    session = session_lifecycle.observe_nodes(lends, NOW + 3, without).session
    assert (session.state, session.taken, session.recalled) == (SessionState.LEASED, True, None)
    assert session.reason == "Its GPUs were taken back while it was idle. Its server keeps running without them."
