"""The scheduler's API at `/runai/api/v1/…` of the notebook server, so that the browser never has a token.

What must hold:
- Only the routes listed here are forwarded, with only the listed query parameters and headers.
- Answers and errors are the scheduler's own. Streams are forwarded as they come, no faster than they are read.
- The output of a job is untrusted: the browser may show or save it, never run it.
- A stream or a poll does not count as activity, so it does not keep an idle server alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import dataclass
from http.client import responses
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from pydantic import ValidationError
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, authenticated

from jupyter_ext.relay import HEARTBEAT, Relay, Tab
from jupyter_ext.upstream import Upstream
from scheduler.errors import PROBLEM_TYPE, NotFound, RunaiError, TooLarge
from scheduler.schema import StreamShows
from scheduler.schema.events import MOST_SHOWN

AUTH_RESOURCE = "runai"
MAX_BODY = 64 * 1024


@dataclass(frozen=True, slots=True)
class Route:
    """A path below `/api/v1/`, as a pattern; `streams`: the answer has no time limit."""

    method: str
    path: str
    query: frozenset[str] = frozenset()
    streams: bool = False


def _route(method: str, path: str, *query: str, streams: bool = False) -> Route:
    return Route(method, path, frozenset(query), streams)


_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_JOB = r"jobs/[A-Za-z0-9_-]+"
_SCHEDULE = r"schedules/[A-Za-z0-9_-]+"
_JOBS = ("state", "project", "user", "mine", "find", "array", "schedule", "sort", "order", "limit", "after")

ROUTES = (
    _route("GET", r"me"),
    _route("GET", r"me/notices"),
    _route("PUT", r"me/notices"),
    _route("POST", r"me/notices/test"),
    _route("GET", r"pool"),
    _route("GET", r"projects"),
    _route("GET", r"jobs", *_JOBS),
    _route("GET", _JOB),
    _route("PATCH", _JOB),
    _route("DELETE", _JOB),
    _route("GET", rf"{_JOB}/explain"),
    _route("GET", rf"{_JOB}/logs", "rank", "attempt", "offset", "limit", "follow", streams=True),
    _route("GET", rf"{_JOB}/log-times", "rank", "attempt", "offset"),
    _route("GET", rf"{_JOB}/gpu-use", "attempt", "points"),
    _route("GET", rf"{_JOB}/display", "attempt", "log", "display"),
    _route("GET", rf"{_JOB}/metrics", "offset"),
    _route("GET", r"reports", "job"),
    _route("GET", rf"{_JOB}/submission"),
    _route("GET", rf"{_JOB}/outputs"),
    _route("GET", rf"{_JOB}/outputs/.+", streams=True),
    _route("POST", rf"{_JOB}/(?:cancel|pause|resume)"),
    _route("GET", r"schedules"),
    _route("PATCH", _SCHEDULE),
    _route("DELETE", _SCHEDULE),
    _route("POST", rf"{_SCHEDULE}/run"),
    _route("GET", r"sessions"),
    _route("GET", r"events", "after", "subject", "store", streams=True),
)

_ASKED = ("Accept", "Content-Type", "Last-Event-ID")
_ANSWERED = (
    "Content-Type",
    "Content-Length",
    "Content-Disposition",
    "Runai-Attempt",
    "Runai-Store",
    "Retry-After",
)


class RunaiHandler(APIHandler):
    """All errors are `application/problem+json`, like the scheduler's."""

    auth_resource = AUTH_RESOURCE

    @property
    def upstream(self) -> Upstream:
        found: Upstream = self.settings["runai_upstream"]
        return found

    @property
    def _track_activity(self) -> bool:  # type: ignore[override]
        """Only requests of a person count: the panel polls automatically."""
        return self.request.method != "GET"

    def problem(self, error: RunaiError) -> None:
        self._write_problem(error.status, error.slug, error.sentence, error.field)

    def _write_problem(self, status: int, slug: str, detail: str, field: str | None = None) -> None:
        self.set_status(status)
        body = {
            "type": f"{PROBLEM_TYPE}{slug}",
            "title": responses.get(status, ""),
            "status": status,
            "detail": detail,
            "field": field,
        }
        self.finish(json.dumps(body), set_content_type="application/problem+json")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        detail = (error.log_message or error.reason) if isinstance(error, HTTPError) else None
        self._write_problem(status_code, "server", detail or responses.get(status_code, "Something went wrong."))


class ProxyHandler(RunaiHandler):
    """Forwards a request to the scheduler with the user's token, and returns the answer."""

    _passing: asyncio.Task[Any] | None = None

    @authenticated
    @authorized
    async def get(self, path: str) -> None:
        await self._pass(path)

    @authenticated
    @authorized
    async def post(self, path: str) -> None:
        await self._pass(path)

    @authenticated
    @authorized
    async def patch(self, path: str) -> None:
        await self._pass(path)

    @authenticated
    @authorized
    async def put(self, path: str) -> None:
        await self._pass(path)

    @authenticated
    @authorized
    async def delete(self, path: str) -> None:
        await self._pass(path)

    async def _pass(self, path: str) -> None:
        try:
            # A task of its own: when the handler's is cancelled, Tornado sends an error behind an answer that has
            # begun.
            self._passing = asyncio.create_task(self._answer(self._allowed(path), path))
            await self._passing
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        except RunaiError as error:
            self.problem(error)
        except httpx.TransportError:
            # The answer has begun: abort the connection, as a complete answer would be wrong.
            self._break_off()
        except StreamClosedError:
            pass

    def _allowed(self, path: str) -> Route:
        if len(self.request.body) > MAX_BODY:
            raise TooLarge(f"A request may have at most {MAX_BODY} bytes.")
        plain = not any(part in ("", ".", "..") for part in path.split("/"))
        for route in ROUTES:
            if plain and route.method == self.request.method and re.fullmatch(route.path, path):
                return route
        raise NotFound("The notebook server does not forward this path to the scheduler.")

    async def _answer(self, route: Route, path: str) -> None:
        query = [
            (name, value.decode("utf-8", "replace"))
            for name, values in self.request.query_arguments.items()
            if name in route.query
            for value in values
        ]
        headers = {name: self.request.headers[name] for name in _ASKED if name in self.request.headers}
        target = f"{quote(path)}?{urlencode(query)}" if query else quote(path)
        content = self.request.body if route.method in ("PATCH", "PUT") else None
        async with self.upstream.send(route.method, target, headers, streams=route.streams, content=content) as reply:
            self.set_status(reply.status_code)
            for name in _ANSWERED:
                if name in reply.headers:
                    self.set_header(name, reply.headers[name])
            self.set_header("Cache-Control", "no-store")
            self.set_header("X-Content-Type-Options", "nosniff")
            if route.streams:
                self.set_header("X-Accel-Buffering", "no")
                await self.flush()
            async for piece in reply.aiter_raw():
                self.write(piece)
                if route.streams:
                    await self.flush()
            media = reply.headers.get("Content-Type", "application/octet-stream")
        self.finish(set_content_type=media)

    def on_connection_close(self) -> None:
        if self._passing is not None:
            self._passing.cancel()

    def _break_off(self) -> None:
        with contextlib.suppress(AttributeError):
            self.request.connection.stream.close()  # type: ignore[union-attr]


class EventsHandler(ProxyHandler):
    """The relay's stream for a page that keeps a view of the pool; other streams are the scheduler's."""

    _tab: Tab | None = None

    @property
    def relay(self) -> Relay:
        found: Relay = self.settings["runai_relay"]
        return found

    @authenticated
    @authorized
    async def get(self) -> None:
        if self.get_query_argument("view", "") != "true":
            return await self._pass("events")
        after = self.request.headers.get("Last-Event-ID", "")
        try:
            self._tab = await self.relay.join(
                int(after) if after.isdecimal() else None,
                self.get_query_argument("store", None),
                _some(self.get_query_arguments("shows")),
            )
        except RunaiError as error:
            return self.problem(error)
        try:
            await self._send(self._tab)
        except StreamClosedError:
            pass
        finally:
            self.relay.leave(self._tab)

    async def _send(self, tab: Tab) -> None:
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self.set_header("Runai-Store", self.relay.store)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("X-Accel-Buffering", "no")
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    message = await tab.queue.get()
            except TimeoutError:
                message = b": still here\n\n"
            if message is None:
                break
            self.write(message)
            if tab.queue.empty():
                await self.flush()
        self.finish(set_content_type="text/event-stream; charset=utf-8")

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._tab is not None:
            self._tab.put(None)


class StreamHandler(RunaiHandler):
    """Sets what a page shows from now on."""

    @property
    def _track_activity(self) -> bool:  # type: ignore[override]
        return False

    @authenticated
    @authorized
    async def post(self, id: str) -> None:
        try:
            shows = StreamShows.model_validate_json(self.request.body)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise HTTPError(400, f"Pass the jobs that the page shows as a list of ids: {reason}.") from None
        try:
            self.settings["runai_relay"].show(id, shows.jobs)
        except RunaiError as error:
            self.problem(error)
        else:
            self.set_status(204)
            self.finish()


def _some(ids: list[str]) -> list[str]:
    return [id for id in ids if _ID.fullmatch(id)][:MOST_SHOWN]


class StatusHandler(RunaiHandler):
    """`/runai/status`: whether there is a pool, and its owner, for the start of the panel."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.finish(json.dumps(await self.upstream.status()))
