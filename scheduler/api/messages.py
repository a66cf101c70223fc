"""Events as they are written to a stream: made once for all listeners that may see the same.

What must hold: a listener that may not see a job in a reason never gets a text that was made for one that may.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from scheduler.api import redaction, views
from scheduler.api.sessionviews import session_view
from scheduler.model import SessionId
from scheduler.schema import Event

if TYPE_CHECKING:
    from scheduler.api.access import Access
    from scheduler.controller.book import Book
    from scheduler.engines.base import Grant
    from scheduler.model import Job, Session
    from scheduler.store import EventRecord


def written(event: Event, *, id: int | None = None) -> bytes:
    """A message of a stream of server-sent events, with an id from which a client may resume."""
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {event.kind}\ndata: {event.model_dump_json()}\n\n".encode()


class Message:
    """One event. `job` is its job as it is now; `None` where it was deleted."""

    def __init__(
        self, record: EventRecord, job: Job | None, book: Book, session_grant: Callable[[Session], Grant]
    ) -> None:
        self.record = record
        self._job = job
        self._book = book
        self._session_grant = session_grant
        self._texts: dict[Hashable, bytes] = {}
        self._mentioned: tuple[str, ...] = ()
        if job is not None:
            reason = str((record.data or {}).get("reason", ""))
            self._mentioned = mentioned(job, book, reason)

    def text(self, access: Access) -> bytes:
        """The text for a caller who may see the event."""
        key = self._alike(access)
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = written(self._event(access), id=self.record.id)
        return text

    def _alike(self, access: Access) -> Hashable:
        """Callers with equal keys get the same text."""
        if self._job is not None:
            return access.owns(self._job), redaction.visible(self._mentioned, self._book, access)
        return access.caller.admin

    def _event(self, access: Access) -> Event:
        record, book = self.record, self._book
        told = Event(id=record.id, at=record.at, kind=record.kind, subject=record.subject, data=dict(record.data or {}))
        if self._job is not None:
            if "reason" in told.data:
                told.data["reason"] = redaction.redacted(told.data["reason"], self._job, book, access)
            return told.model_copy(update={"job": views.job_views([self._job], book, access)[0]})
        if record.kind.startswith("job."):
            told.data.pop("reason", None)  # it may name jobs that the caller may not see, and can no longer be checked
        elif record.kind.startswith("session.") and (session := book.sessions.get(SessionId(record.subject))):
            view = session_view(session, book, self._session_grant(session))
            return told.model_copy(update={"session": view})
        elif record.kind.startswith(("project.", "pool.")) and not access.caller.admin:
            told.data.clear()
        return told


def mentioned(job: Job, book: Book, *texts: str) -> tuple[str, ...]:
    """The workloads that the view of a job, and these texts, mention."""
    decision = book.decision(job.id)
    reasons = [job.reason, *texts, *(attempt.reason for attempt in job.attempts)]
    if decision is None:
        return redaction.mentioned(job, *reasons)
    return redaction.mentioned(job, *reasons, decision.reason, details=decision.details)
