"""What becomes of a session: the session and what happened to it in, the session as it is now and what must be done
out.

Pure, as `lifecycle` is for jobs. What must hold:
- a session that holds its lease ends with its server or with its node, and for no other reason;
- one that is not leased its GPUs by a plan is refused with the plan's reason, unless others give GPUs back for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from scheduler.controller.sentences import where
from scheduler.errors import Conflict, RunaiError, Unavailable
from scheduler.model import NodeName, Session, SessionState, WorkerPlacement
from scheduler.policy import Action, Decision
from scheduler.policy.blocking import OverBuildQuota

PATIENCE = 60.0
"""Seconds that a session waits for GPUs which others have to give back first."""


@dataclass(frozen=True, slots=True)
class SeatSession:
    """Have the engine give the session its GPUs, and tell whoever asked for it."""


@dataclass(frozen=True, slots=True)
class UnseatSession:
    """Have the engine take back what it has given to the session, whose node is gone."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell whoever asked for the session why it cannot have one."""

    error: RunaiError


Instruction = SeatSession | UnseatSession | Refuse


@dataclass(frozen=True, slots=True)
class Step:
    """The session as it is now, and what must be done once that is durable."""

    session: Session
    do: tuple[Instruction, ...] = ()


def lease(session: Session, placement: tuple[WorkerPlacement, ...], now: float) -> Step:
    """A plan gives a requested session its GPUs."""
    if session.state is not SessionState.REQUESTED:
        return Step(session)
    reason = f"Holds its GPUs on {where(placement)}."
    leased = replace(session, state=SessionState.LEASED, reason=reason, placement=placement, started=now)
    return Step(leased, (SeatSession(),))


def pass_over(session: Session, decision: Decision, now: float) -> Step:
    """A plan does not lease it its GPUs: it waits for those that others give back, or is refused."""
    if session.state is not SessionState.REQUESTED:
        return Step(session)
    if decision.action is not Action.WAIT:
        return Step(replace(session, reason=decision.reason))
    return _refuse(
        session,
        (Conflict if isinstance(decision.blocked_by, OverBuildQuota) else Unavailable)(decision.reason),
        now,
    )


def time_out(session: Session, now: float) -> Step:
    """It has waited for its GPUs as long as a session waits."""
    if session.state is not SessionState.REQUESTED:
        return Step(session)
    why = session.reason or "The scheduler did not decide in time; try again."
    sentence = f"The GPUs were not freed within {PATIENCE:g} s. {why}"
    return _refuse(session, Unavailable(sentence), now)


def abandon(session: Session, now: float) -> Step:
    """The scheduler stops; one that holds its lease keeps it."""
    if session.state is not SessionState.REQUESTED:
        return Step(session)
    return _refuse(session, Unavailable("The scheduler is stopping; try again when it is running."), now)


def refuse_seat(session: Session, error: RunaiError, now: float) -> Step:
    """The engine cannot give it its GPUs."""
    return _refuse(session, error, now)


def close(session: Session, now: float) -> Step:
    """Its server stopped, and the engine has taken its GPUs back."""
    return Step(_ended(session, "Its server stopped.", now))


def observe_nodes(session: Session, nodes: Collection[NodeName], now: float) -> Step:
    """These nodes are there."""
    if all(worker.node in nodes for worker in session.placement):
        return Step(session)
    return Step(_ended(session, "Its node is gone.", now), (UnseatSession(),))


def _refuse(session: Session, error: RunaiError, now: float) -> Step:
    return Step(_ended(session, error.sentence, now), (Refuse(error),))


def _ended(session: Session, reason: str, now: float) -> Session:
    if session.state is SessionState.ENDED:
        return session
    return replace(session, state=SessionState.ENDED, reason=reason, ended=now)
