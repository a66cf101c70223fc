"""`GET /events`: the append-only record as server-sent events, as far as the caller may see it.

What must hold:
- A client that resumes with the last id it got misses nothing and gets nothing twice.
- A reader that is slow holds up nobody and costs a bounded amount of memory: it is let go, and resumes.
- Nobody is told of what they may not see, also when that changes while the stream runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from tornado.iostream import StreamClosedError

from scheduler.api import discretion, views
from scheduler.api.access import Access, Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import EVENTS, endpoint
from scheduler.errors import Invalid
from scheduler.schema import Event

if TYPE_CHECKING:
    from scheduler.store import EventRecord

HEARTBEAT = 5.0
"""A comment is sent after so many seconds of silence: a proxy may keep a reader's line open whose other end is gone."""

QUEUE = 256
"""So many events wait for a reader …"""

PATIENCE = 30.0
"""… and for so many seconds, before it is let go."""

CHECK_EVERY = 30.0
"""After how many seconds a stream asks again whether its caller still may read it."""

RETRY_MS = 1000


class EventQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    after: int | None = Field(None, ge=0, description="the same as Last-Event-ID; absent: from now on")
    subject: str | None = Field(None, description="only what happens to this job, session or project")


class EventsHandler(ApiHandler):
    @endpoint(
        "What changes, as it changes; goes on after `Last-Event-ID`",
        Scope.READ,
        query=EventQuery,
        answer=Event,
        media=EVENTS,
        headers=(("Last-Event-ID", "the last event that was received"),),
    )
    async def get(self) -> None:
        query = self.query(EventQuery)
        after = self._after(query)
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self.set_header("X-Accel-Buffering", "no")
        self._queue: asyncio.Queue[EventRecord | None] = asyncio.Queue(QUEUE)
        if after is None:
            after = self.api.book.last_event
        self.send_at_once()
        pump = asyncio.create_task(self._pump(after))
        try:
            # The id comes first, so that a reader who loses the line at once resumes from here.
            self.write(f"retry: {RETRY_MS}\nid: {after}\n\n")
            await self.flush()
            await self._send(query.subject)
        except StreamClosedError:
            pass
        finally:
            pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pump

    def _after(self, query: EventQuery) -> int | None:
        last = self.request.headers.get("Last-Event-ID")
        if last is None or last == "":
            return query.after
        if not last.isdecimal() or len(last) > 18:
            raise Invalid("Last-Event-ID: pass the id of the last event you received.", field="Last-Event-ID")
        return int(last)

    async def _pump(self, after: int) -> None:
        """From the controller into the queue; ends with `None` where the reader does not keep up or the record ends."""
        records = self.api.controller.events(after)
        try:
            async for record in records:
                async with asyncio.timeout(PATIENCE):
                    await self._queue.put(record)
        except TimeoutError:
            self.close_connection()
        finally:
            await records.aclose()
            with contextlib.suppress(asyncio.QueueFull):
                self._queue.put_nowait(None)

    async def _send(self, subject: str | None) -> None:
        access, checked = self.access, time.monotonic()
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    record = await self._queue.get()
            except TimeoutError:
                self.write(": still here\n\n")
            else:
                if record is None:
                    return
                if access.pool is not self.api.book.pool:
                    access = self.access
                if subject in (None, record.subject) and (event := await self._event(record, access)):
                    self.write(f"id: {event.id}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n")
            if self._queue.empty():
                await self.flush()
            if time.monotonic() - checked > CHECK_EVERY:
                checked = time.monotonic()
                if not await self.still_allowed():
                    return
                access = self.access

    async def _event(self, record: EventRecord, access: Access) -> Event | None:
        """The record as this caller sees it, with the thing as it is now; `None` where they may not see it."""
        book = self.api.book
        told = Event(
            id=record.id, at=record.at, kind=record.kind, subject=record.subject, data=dict(record.data or {})
        )
        if record.kind.startswith("job."):
            job = book.jobs.get(record.subject) or await self.api.controller.job(record.subject)
            if job is None:
                own = record.user == access.caller.name or access.sees_project(record.project)
                return told if own else None
            if not access.sees_job(job):
                return None
            if "reason" in told.data:
                told.data["reason"] = discretion.told(told.data["reason"], job, book, access)
            return told.model_copy(update={"job": views.job_views([job], book, access)[0]})
        if record.kind.startswith("session."):
            if record.user != access.caller.name and not access.caller.admin:
                return None
            session = book.sessions.get(record.subject)
            if session is not None:
                view = views.session_view(session, {node.name: node for node in book.nodes})
                return told.model_copy(update={"session": view})
            return told
        if record.kind.startswith("project.") and not access.caller.admin:
            return told.model_copy(update={"data": {}})
        if record.kind.startswith("pool.") and not access.caller.admin:
            return told.model_copy(update={"data": {}})
        return told

    def on_connection_close(self) -> None:
        super().on_connection_close()
        with contextlib.suppress(AttributeError, asyncio.QueueFull):
            self._queue.put_nowait(None)
