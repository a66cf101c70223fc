"""`GET /events`: what changes, as server-sent events, as far as the caller may see it; `broadcast` tells it.

An id belongs to one store, which counts its events from 1: one of another store is like none, and nothing that has
happened here was told.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial

from pydantic import BaseModel, ConfigDict, Field
from tornado.iostream import StreamClosedError

from scheduler.api.access import Caller, Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import EVENTS, endpoint
from scheduler.api.listener import Listener
from scheduler.errors import Invalid, NotFound
from scheduler.schema import Event, StreamShows
from scheduler.schema.events import MOST_SHOWN, JobId

RETRY_MS = 1000

UNREAD = 64 * 1024
"""The most bytes that a listener may send behind its request, though nobody reads them."""


class EventQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    after: int | None = Field(None, ge=0, description="the same as Last-Event-ID; absent: from now on")
    subject: str | None = Field(None, description="only what happens to this job, session or project")
    store: str | None = Field(
        None,
        description="`Runai-Store` of the stream that Last-Event-ID is of; another store tells everything",
    )
    view: bool = Field(
        False,
        description="the listener keeps a view of the pool: it is told `stream.begin` first, `view.figures` and, "
        "where it has missed too much, to read all lists again",
    )
    shows: list[JobId] = Field(
        default_factory=list,
        max_length=MOST_SHOWN,
        description="the waiting jobs of whose place in line it is told; absent: the caller's own",
    )
    all_projects: bool = Field(False, description="figures of all projects, not only of the caller's")


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
        first = self.api.book.last_event if after is None else after
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self.set_header("X-Accel-Buffering", "no")
        self.set_header("Runai-Store", self.api.controller.store_id)
        self.send_at_once()
        # The id comes first, so that a reader who loses the line at once resumes from here.
        self.write(f"retry: {RETRY_MS}\nid: {first}\n\n")
        try:
            await self.flush()
        except StreamClosedError:
            return
        self.api.broadcast.add(self._listener(query), self.caller, None if after is None else first)

    def _after(self, query: EventQuery) -> int | None:
        """The event after which to go on; `None`: from now on."""
        after = query.after
        last = self.request.headers.get("Last-Event-ID")
        if last:
            if not last.isdecimal() or len(last) > 18:
                raise Invalid("Last-Event-ID: pass the id of the last event you received.", field="Last-Event-ID")
            after = int(last)
        if after is None:
            return None
        controller = self.api.controller
        elsewhere = query.store not in (None, controller.store_id) or after > controller.book.last_event
        return 0 if elsewhere else after

    def _listener(self, query: EventQuery) -> Listener:
        """The connection, from now on without what served the request."""
        chunked = self.request.version == "HTTP/1.1"
        stream = self.detach()
        stream.max_buffer_size = UNREAD
        listener = Listener(
            stream,
            partial(_whose, self.api.authenticator.remember(self)),
            id=secrets.token_hex(8),
            chunked=chunked,
            subject=query.subject,
            view=query.view,
            shown=tuple(query.shows) or None,
            all_projects=query.all_projects,
        )
        api = self.api

        def closed() -> None:
            api.connections.closed(stream)
            api.broadcast.remove(listener)

        stream.set_close_callback(closed)
        self.on_finish()
        return listener


async def _whose(identify: Callable[[], Awaitable[Caller | None]]) -> Caller | None:
    """The caller, if they still may listen."""
    caller = await identify()
    return caller if caller is not None and Scope.READ in caller.scopes else None


class StreamHandler(ApiHandler):
    @endpoint(
        "Say what a stream of the caller's shows from now on; `subject` of its stream.begin names it",
        Scope.READ,
        body=StreamShows,
        status=204,
        refuses=(NotFound,),
    )
    async def post(self, stream_id: str) -> None:
        shown = self.body(StreamShows)
        listener = self.api.broadcast.find(stream_id, self.caller)
        if listener is None:
            raise NotFound("You have no such stream open; open one with GET /events?view=true.")
        self.api.broadcast.shows(listener, shown.jobs)
        self.set_status(204)
        self.finish()
