"""`GET /events`: the events that the caller may see, as server-sent events; `broadcast` sends them.

An id belongs to one store: a listener with the id of another store has missed everything in this one. A new store
counts from a number that no older store has reached, so the id of a replaced store is recognised by its value.
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
"""The most bytes that a listener may send after its request; they are ignored."""


class EventQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    after: int | None = Field(None, ge=0, description="the same as Last-Event-ID; absent: only new events")
    subject: str | None = Field(None, description="only events of this job, session or project")
    store: str | None = Field(
        None,
        description="`Runai-Store` of the stream that Last-Event-ID is from; if it has changed, all events are sent",
    )
    view: bool = Field(
        False,
        description="the listener keeps a view of the pool: it receives `stream.begin` first and `view.figures` later, "
        "and is asked to read all lists again if it has missed too much",
    )
    shows: list[JobId] = Field(
        default_factory=list,
        max_length=MOST_SHOWN,
        description="the jobs that it shows: it receives the positions of those that wait (absent: of the caller's "
        "own), and learns when those of the caller's that run have written something",
    )
    all_projects: bool = Field(False, description="figures of all projects, not only of the caller's")


class EventsHandler(ApiHandler):
    @endpoint(
        "Stream changes as they happen, continuing after `Last-Event-ID`",
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
        # The id comes first, so that a reader that is disconnected at once resumes from here.
        self.write(f"retry: {RETRY_MS}\nid: {first}\n\n")
        try:
            await self.flush()
        except StreamClosedError:
            return
        self.api.broadcast.add(self._listener(query), self.caller, None if after is None else first)

    def _after(self, query: EventQuery) -> int | None:
        """The event after which to continue; `None`: only new ones."""
        after = query.after
        last = self.request.headers.get("Last-Event-ID")
        if last:
            if not last.isdecimal() or len(last) > 18:
                raise Invalid("Last-Event-ID: pass the id of the last event you received.", field="Last-Event-ID")
            after = int(last)
        if after is None:
            return None
        controller = self.api.controller
        here = controller.book.before_events <= after <= controller.book.last_event
        if here and query.store in (None, controller.store_id):
            return after
        return None if query.view else controller.book.before_events  # a view is read anew instead

    def _listener(self, query: EventQuery) -> Listener:
        """The listener on this connection, detached from the objects that served the request."""
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
    """The caller, if still permitted to listen."""
    caller = await identify()
    return caller if caller is not None and Scope.READ in caller.scopes else None


class StreamHandler(ApiHandler):
    @endpoint(
        "Set the jobs that an event stream of the caller shows; its id is the `subject` of its stream.begin",
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
