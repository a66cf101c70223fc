"""One stream of the scheduler's events for all tabs of a user's browser.

What must hold:
- The scheduler has one listener per server, and none while no tab listens.
- A tab that resumes gets each event once; one that missed more than is kept here reloads all lists.
- A tab that does not read is disconnected and delays no other; a tab whose stream ends reconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx

from jupyter_ext.upstream import DOWN, Upstream
from scheduler.client.refusals import error_of
from scheduler.errors import NotFound, RunaiError, Unavailable
from scheduler.schema.events import MOST_SHOWN

REMEMBERED = 500
"""The number of recent events that are kept for tabs that reconnect."""

WAITING = 200
"""The most messages in the queue of a tab before it is disconnected."""

HEARTBEAT = 5.0
"""Seconds of silence after which a tab is sent a comment."""

SILENCE = 3.0
"""The scheduler's stream counts as broken after this many missing heartbeats."""

LINGER = 20.0
"""Seconds until the stream is closed after the last tab has gone, so that a reloaded page finds it open."""

TOGETHER = 0.5
"""Changes of what tabs show within this many seconds are sent to the scheduler together."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the stream, unchanged, and its id if it has one."""

    raw: bytes
    kind: str
    id: int | None
    data: dict[str, Any] | None


@dataclass(eq=False)
class Tab:
    """A page that listens. `queue` has its messages; `None` ends its stream."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    shows: tuple[str, ...] = ()
    queue: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(WAITING))

    def put(self, message: bytes | None) -> None:
        if self.queue.full():  # it does not read: end its stream, and it reconnects
            while not self.queue.empty():
                self.queue.get_nowait()
            message = None
        self.queue.put_nowait(message)


class Relay:
    """`store` is the store to which the ids of the events belong."""

    def __init__(self, upstream: Upstream) -> None:
        self.store = ""
        self._upstream = upstream
        self._tabs: dict[str, Tab] = {}
        self._joining = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._stream = ""
        self._shown: frozenset[str] = frozenset()
        self._since = self._last = 0
        self._events: deque[Message] = deque()
        self._figures: dict[str, Any] = {}

    # -- tabs ---------------------------------------------------------------------------------------------

    async def join(self, after: int | None, store: str | None, shows: Iterable[str]) -> Tab:
        """Add a tab that gets the events after one, then new ones. Raises `RunaiError` where the scheduler does not
        answer."""
        async with self._joining:
            if self._reading is None or self._reading.done():
                await self._connect()
        if self._closing is not None:
            self._closing.cancel()
        tab = Tab(shows=tuple(shows))
        resumed = after is not None and store == self.store and self._since <= after <= self._last
        self._begin(tab, resumed=resumed)
        for event in self._events if resumed else ():
            if event.id is not None and after is not None and event.id > after:
                tab.put(event.raw)
        self._tabs[tab.id] = tab
        self._tell_shown()
        return tab

    def leave(self, tab: Tab) -> None:
        self._tabs.pop(tab.id, None)
        if not self._tabs:
            self._closing = asyncio.get_running_loop().call_later(LINGER, self._hang_up)

    def show(self, id: str, shows: Iterable[str]) -> None:
        """A tab shows these jobs now. Raises `NotFound`."""
        if id not in self._tabs:
            raise NotFound("This page has no such stream open.")
        self._tabs[id].shows = tuple(shows)
        self._tell_shown()

    async def close(self) -> None:
        for task in (self._reading, self._telling):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    def _begin(self, tab: Tab, *, resumed: bool) -> None:
        data = {"resumed": resumed, "heartbeat": HEARTBEAT}
        tab.put(_written("stream.begin", self._last, tab.id, data, id=self._last))
        figures = {**self._figures, "projects": list(self._figures.get("projects", {}).values())}
        tab.put(_written("view.figures", self._last, "", figures))

    # -- the scheduler's stream ---------------------------------------------------------------------------

    def _hang_up(self) -> None:
        if not self._tabs and self._reading is not None:
            self._reading.cancel()

    async def _connect(self) -> None:
        """Open the stream, and wait until it has begun."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(begun))
        await begun

    async def _read(self, begun: asyncio.Future[None]) -> None:
        """Forward messages until the stream ends, which ends the stream of each tab."""
        try:
            headers = {"Accept": "text/event-stream"}
            query = {"view": "true"}
            if self.store:
                headers["Last-Event-ID"] = str(self._last)
                query["store"] = self.store
            async with self._upstream.send("GET", f"events?{urlencode(query)}", headers, streams=True) as reply:
                if reply.is_error:
                    await reply.aread()
                    raise error_of(reply, str(reply.url))
                self.store = reply.headers.get("Runai-Store", "")
                async for message in _messages(reply):
                    self._take(message)
                    if message.kind == "stream.begin" and not begun.done():
                        begun.set_result(None)
        except RunaiError as error:
            if not begun.done():
                begun.set_exception(error)
        except (httpx.TransportError, TimeoutError):
            pass
        finally:
            if not begun.done():
                begun.set_exception(Unavailable(DOWN))
            self._shown = frozenset()
            for tab in self._tabs.values():
                tab.put(None)

    def _take(self, message: Message) -> None:
        data = message.data or {}
        if message.kind == "stream.begin":
            self._stream = data["subject"]
            if not data["data"]["resumed"]:
                self._since = self._last = message.id or 0
                self._events.clear()
                self._figures.clear()
                for tab in self._tabs.values():
                    self._begin(tab, resumed=False)
            self._tell_shown()
            return
        if message.id is not None:
            self._last = message.id
            self._events.append(message)
            if len(self._events) > REMEMBERED:
                self._since = self._events.popleft().id or self._since
        elif message.kind == "view.figures":
            self._merge(data["data"])
        for tab in self._tabs.values():
            tab.put(message.raw)

    def _merge(self, figures: dict[str, Any]) -> None:
        """Keep the figures for later tabs, which read the jobs themselves."""
        projects = self._figures.setdefault("projects", {})
        for project in figures.get("projects") or ():
            projects[project["name"]] = project
        self._figures.update({name: figures[name] for name in ("me", "pool") if figures.get(name)})

    # -- what is shown ------------------------------------------------------------------------------------

    def _tell_shown(self) -> None:
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._show())

    async def _show(self) -> None:
        """Send what the tabs show to the scheduler, until it succeeds."""
        while True:
            await asyncio.sleep(TOGETHER)
            shown = [id for tab in self._tabs.values() for id in tab.shows][:MOST_SHOWN]
            if frozenset(shown) == self._shown or not self._tabs:
                return
            self._shown = frozenset(shown)
            body = json.dumps({"jobs": sorted(self._shown)}).encode()
            headers = {"Content-Type": "application/json"}
            with contextlib.suppress(RunaiError, httpx.TransportError):  # the next stream sends it again
                async with self._upstream.send("POST", f"events/{self._stream}", headers, content=body) as reply:
                    await reply.aread()


async def _messages(reply: httpx.Response) -> AsyncIterator[Message]:
    """The messages of a stream; comments only show that it is alive. Raises `TimeoutError` on silence."""
    rest, silence = b"", SILENCE * HEARTBEAT
    pieces = reply.aiter_raw()
    while True:
        try:
            async with asyncio.timeout(silence):  # in Python 3.11 `wait_for` may lose a cancellation
                rest += await anext(pieces)
        except StopAsyncIteration:
            return
        *whole, rest = rest.split(b"\n\n")
        for raw in whole:
            message = _parsed(raw + b"\n\n")
            if message is not None:
                if message.kind == "stream.begin" and message.data is not None:
                    silence = SILENCE * float(message.data["data"]["heartbeat"])
                yield message


def _parsed(raw: bytes) -> Message | None:
    """A message with data; `None` for any other."""
    fields: dict[str, str] = {}
    for line in raw.decode().split("\n"):
        name, _, value = line.partition(":")
        fields[name] = value.removeprefix(" ")
    if "data" not in fields:
        return None
    id = int(fields["id"]) if fields.get("id", "").isdecimal() else None
    known = fields.get("event", "")
    parsed = json.loads(fields["data"]) if known in ("stream.begin", "view.figures") else None
    return Message(raw, known, id, parsed)


def _written(kind: str, event: int, subject: str, data: dict[str, Any], *, id: int | None = None) -> bytes:
    head = "" if id is None else f"id: {id}\n"
    told = {"id": event, "at": time.time(), "kind": kind, "subject": subject, "data": data}
    return f"{head}event: {kind}\ndata: {json.dumps({**told, 'job': None, 'session': None})}\n\n".encode()
