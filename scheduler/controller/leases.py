"""Sessions that wait for their plan. A request is not kept on disk: whoever asks is still there to ask again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.errors import RunaiError, Unavailable
from scheduler.model import Session
from scheduler.policy import Decision

PATIENCE = 60.0
"""Seconds that a session waits for GPUs which others have to give back first."""


@dataclass(frozen=True, slots=True)
class Waiting:
    session: Session
    answer: asyncio.Future[Session]
    patience: asyncio.TimerHandle


class Leases:
    """The requests, by the session's id; one for a user's server at a time."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._reasons: dict[str, str] = {}

    @property
    def waiting(self) -> Mapping[str, Waiting]:
        return self._waiting

    def ask(self, session: Session) -> asyncio.Future[Session]:
        """The lease, once there is one; the same answer for everybody who asks for this user's server."""
        for waiting in self._waiting.values():
            if (waiting.session.user, waiting.session.server) == (session.user, session.server):
                return waiting.answer
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Session] = loop.create_future()
        answer.add_done_callback(_heard)
        patience = loop.call_later(PATIENCE, self._too_long, session.id)
        self._waiting[session.id] = Waiting(session, answer, patience)
        return answer

    def note(self, session: str, decision: Decision) -> None:
        """It has to wait for others to give GPUs back."""
        self._reasons[session] = decision.reason

    def granted(self, session: Session) -> None:
        if (waiting := self._take(session.id)) and not waiting.answer.done():
            waiting.answer.set_result(session)

    def refuse(self, session: str, error: RunaiError) -> None:
        if (waiting := self._take(session)) and not waiting.answer.done():
            waiting.answer.set_exception(error)

    def close(self) -> None:
        for session in list(self._waiting):
            self.refuse(session, Unavailable("The scheduler is stopping; try again when it is back."))

    def _too_long(self, session: str) -> None:
        why = self._reasons.get(session, "No plan was made for it in time.")
        self.refuse(session, Unavailable(f"The GPUs did not become free within {PATIENCE:g} s. {why}"))

    def _take(self, session: str) -> Waiting | None:
        self._reasons.pop(session, None)
        waiting = self._waiting.pop(session, None)
        if waiting is not None:
            waiting.patience.cancel()
        return waiting


def _heard(answer: asyncio.Future[Session]) -> None:
    """Whoever asked may have gone; a refusal that nobody hears is no fault."""
    if not answer.cancelled():
        answer.exception()
