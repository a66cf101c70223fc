"""The life cycle of a session: the input is the session and an event; the output is the changed session and
instructions.

Pure, as `lifecycle` is for jobs. What must hold:
- a session that holds a lease ends with its server or with its node, and for no other reason; an idle server may be
  stopped;
- an idle session may lend its GPUs: it holds none until it gets exactly these back, or they are taken back for good,
  as they are when one of them is gone;
- one that gets no GPUs from a plan is refused with the plan's reason, unless others release GPUs for it or it stands
  in line for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.controller.sentences import where
from scheduler.controller.sessionline import passes
from scheduler.errors import Conflict, RunaiError, Unavailable
from scheduler.model import Node, NodeName, Session, SessionState, WorkerPlacement, held_by, without_gpus
from scheduler.policy import Action, Decision
from scheduler.policy.blocking import OverBuildQuota

PATIENCE = 60.0
"""Seconds that a session waits for GPUs that others must release first."""

LEFT = "This server has left the line for GPUs; start it again to wait for them."


@dataclass(frozen=True, slots=True)
class SeatSession:
    """Have the engine assign the session's GPUs, and answer the caller."""


@dataclass(frozen=True, slots=True)
class UnseatSession:
    """Have the engine release what it has assigned to the session, whose node is gone."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the caller why there is no session."""

    error: RunaiError


Instruction = SeatSession | UnseatSession | Refuse


@dataclass(frozen=True, slots=True)
class Step:
    """The changed session, and the instructions to carry out once it is durable."""

    session: Session
    do: tuple[Instruction, ...] = ()


def lease(session: Session, placement: tuple[WorkerPlacement, ...], now: float) -> Step:
    """A plan gives a requested session its GPUs."""
    if session.state is not SessionState.REQUESTED:
        return Step(session)
    leased = replace(session, state=SessionState.LEASED, reason=_holds(placement), placement=placement, started=now)
    return Step(leased, (SeatSession(),))


def pass_over(session: Session, decision: Decision, now: float, *, waits: bool = False) -> Step:
    """A plan gives it no GPUs: it waits for GPUs that others release, or is refused. `waits`: it stands in line."""
    if session.state is not SessionState.REQUESTED:
        return Step(session)
    if decision.action is not Action.WAIT or (waits and passes(decision.blocked_by)):
        return Step(replace(session, reason=decision.reason))
    return _refuse(
        session,
        (Conflict if isinstance(decision.blocked_by, OverBuildQuota) else Unavailable)(decision.reason),
        now,
    )


def leave(session: Session, now: float) -> Step:
    """It leaves the line of those that wait for GPUs."""
    if session.state is not SessionState.REQUESTED:
        return Step(session)
    return _refuse(session, Conflict(LEFT), now)


def time_out(session: Session, now: float) -> Step:
    """It has waited for its GPUs for the longest time."""
    if session.state is not SessionState.REQUESTED:
        return Step(session)
    why = session.reason or "The scheduler did not decide in time; try again."
    sentence = f"The GPUs were not freed within {PATIENCE:g} s. {why}"
    return _refuse(session, Unavailable(sentence), now)


def abandon(session: Session, now: float) -> Step:
    """The scheduler stops; a session that holds a lease keeps it."""
    if session.state is not SessionState.REQUESTED:
        return Step(session)
    return _refuse(session, Unavailable("The scheduler is stopping; try again when it is running."), now)


def refuse_seat(session: Session, error: RunaiError, now: float) -> Step:
    """The engine cannot assign its GPUs."""
    return _refuse(session, error, now)


def warn(session: Session, notice: str) -> Step:
    """Its server will be stopped, or uses too much memory; an empty notice withdraws that."""
    if session.state is not SessionState.LEASED:
        return Step(session)
    return Step(replace(session, reason=" ".join(filter(None, [_standing(session), notice]))))


def lend(session: Session, now: float) -> Step:
    """It is idle: jobs may use its GPUs until it is used again."""
    if session.state is not SessionState.LEASED or not held_by(session.placement):
        return Step(session)
    return _placed(session, without_gpus(session.placement), now, claim=session.placement)


def recall(session: Session, now: float) -> Step:
    """It is used again, and is to get back the GPUs that it lends."""
    if session.state is not SessionState.LEASED or not session.claim or session.recalled is not None:
        return Step(session)
    return _explained(replace(session, recalled=now))


def restore(session: Session, now: float) -> Step:
    """It has the GPUs again that it lent."""
    if session.state is not SessionState.LEASED or not session.claim:
        return Step(session)
    return _placed(session, session.claim, now)


def take_back(session: Session, now: float) -> Step:
    """Its GPUs are taken back, while its server keeps running."""
    if session.state is not SessionState.LEASED or not held_by(session.promised):
        return Step(session)
    return _placed(session, without_gpus(session.placement), now)


def close(session: Session, now: float, by: str | None = None, why: str = "") -> Step:
    """Its server has stopped, and the engine has released its GPUs; `by` is set if not its owner stopped it, `why` if
    the scheduler did."""
    reason = why or ("Its server stopped." if by is None else f"{by} stopped its server.")
    return Step(_ended(session, reason, now))


def observe_nodes(session: Session, now: float, nodes: Mapping[NodeName, Node]) -> Step:
    """These nodes exist."""
    if any(worker.node not in nodes for worker in session.placement):
        return Step(_ended(session, "Its node is gone.", now), (UnseatSession(),))
    if any(gpu >= nodes[worker.node].gpus for worker in session.claim for gpu in worker.gpus):
        return take_back(session, now)  # it would wait for them for ever
    return Step(session)


def _placed(
    session: Session, placement: tuple[WorkerPlacement, ...], now: float, claim: tuple[WorkerPlacement, ...] = ()
) -> Step:
    return _explained(replace(session, placement=placement, placed=now, claim=claim, recalled=None))


def _explained(session: Session) -> Step:
    return Step(replace(session, reason=_standing(session)))


def _standing(session: Session) -> str:
    if session.recalled is not None:
        return f"Gets its GPUs on {where(session.claim)} back when the jobs on them have stopped."
    if session.claim:
        return f"Is idle, and lends its GPUs on {where(session.claim)} to jobs until it is used."
    if session.taken:
        return "Its GPUs were taken back while it was idle. Its server keeps running without them."
    return _holds(session.placement)


def _holds(placement: tuple[WorkerPlacement, ...]) -> str:
    return f"Holds its GPUs on {where(placement)}."


def _refuse(session: Session, error: RunaiError, now: float) -> Step:
    return Step(_ended(session, error.sentence, now), (Refuse(error),))


def _ended(session: Session, reason: str, now: float) -> Session:
    if session.state is SessionState.ENDED:
        return session
    return replace(session, state=SessionState.ENDED, reason=reason, ended=now, claim=(), recalled=None)
