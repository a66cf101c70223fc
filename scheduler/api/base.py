"""What all handlers share: credentials first, bounded bodies, one form of errors, strict headers.

What must hold:
- The caller is identified and has the scope before any byte of a body is stored, for every method that is not marked as
  open.
- Every error is `application/problem+json` with one sentence; internal errors are logged, not returned.
- Nothing is cached, framed or sniffed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel
from tornado.iostream import IOStream
from tornado.web import HTTPError, RequestHandler, stream_request_body

from scheduler.api.access import Access, Caller, Scope
from scheduler.api.endpoint import MAX_JSON, Endpoint, endpoints, parse_body, parse_query
from scheduler.api.exchange import DISCARDED
from scheduler.api.submitting import find_job
from scheduler.errors import (
    BY_STATUS,
    PROBLEM_TYPE,
    Forbidden,
    NotFound,
    RunaiError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    shortage,
)
from scheduler.model import Job
from scheduler.schema import Problem, Wire

if TYPE_CHECKING:
    from scheduler.api.context import Context

log = logging.getLogger("runai.api")

T = TypeVar("T", bound=BaseModel)

_TITLES = {400: "Bad request", 404: "Not found", 405: "Method not allowed", 500: "Error"}


class MethodNotAllowed(RunaiError):
    """The path exists, but not with this method."""

    status = 405
    slug = "method-not-allowed"


def problem_of(error: RunaiError) -> Problem:
    """An error in the form of RFC 9457."""
    words = error.slug.replace("-", " ")
    return Problem(
        type=f"{PROBLEM_TYPE}{error.slug}",
        title=words[0].upper() + words[1:],
        status=error.status,
        detail=error.sentence,
        field=error.field,
    )


@stream_request_body
class ApiHandler(RequestHandler):
    """The base of every handler of the API."""

    endpoints: ClassVar[dict[str, Endpoint]] = {}
    endpoint: Endpoint | None
    caller: Caller
    api: Context

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls.endpoints = endpoints(cls)

    def initialize(self) -> None:
        self.api = self.settings["api"]
        self.endpoint = self.endpoints.get(self.request.method or "")
        self._kept = bytearray()
        self._too_large = False

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        self.clear_header("Server")

    def compute_etag(self) -> None:
        """Nothing is cached, so there are no entity tags."""

    # -- before the method ---------------------------------------------------------------------------------

    async def prepare(self) -> None:
        self.limit_body(DISCARDED)
        if self.endpoint is None:
            raise MethodNotAllowed(f"{self.request.path} does not take {self.request.method}.")
        if self.endpoint.scope is not None:
            self.caller = await self.authenticate(self.endpoint.scope)
            self.api.connections.belongs(self._stream, self.caller.name)
        self.check_length(self.body_limit())

    async def authenticate(self, scope: Scope) -> Caller:
        """Who sends this request, with `scope`. Raises `Unauthenticated` or `Forbidden`."""
        caller = await self.api.authenticator.identify(self)
        if caller is None:
            raise unauthenticated(self)
        self.current_user = caller
        if scope not in caller.scopes:
            advice = "ask an administrator for it"
            if scope is Scope.ADMIN:  # which even an administrator's notebook server lacks
                advice = "if you administer the hub, request a token at /hub/token and set RUNAI_TOKEN to it"
            raise Forbidden(f"This needs the scope {scope.value}, which your token does not have; {advice}.")
        if caller.job is not None and not (self.endpoint and self.endpoint.for_jobs):
            raise Forbidden("The token of a job may only submit jobs, and read and cancel these.")
        return caller

    async def still_allowed(self) -> bool:
        """Whether the caller of a long stream still has the permissions of its start."""
        assert self.endpoint is not None
        assert self.endpoint.scope is not None
        try:
            caller = await self.api.authenticator.identify(self)
        except Forbidden:
            return False
        if caller is None or self.endpoint.scope not in caller.scopes:
            return False
        self.caller = caller
        return True

    # -- bodies -------------------------------------------------------------------------------------------

    def body_limit(self) -> int:
        """The largest body that this method takes, in bytes."""
        return MAX_JSON

    def limit_body(self, size: int) -> None:
        self.request.connection.set_max_body_size(size)  # type: ignore[union-attr]

    def check_length(self, limit: int) -> None:
        length = self.request.headers.get("Content-Length", "0")
        if length.isdigit() and int(length) > limit:
            raise TooLarge(f"The body is larger than {limit:,} bytes, the maximum for this request.")

    def data_received(self, chunk: bytes) -> Any:
        if len(self._kept) + len(chunk) > MAX_JSON:
            self._too_large = True
        else:
            self._kept += chunk

    def body(self, model: type[T]) -> T:
        """The body as `model`; raises `Invalid` with the field at fault."""
        if self._too_large:
            raise TooLarge(f"The body is larger than {MAX_JSON:,} bytes, the maximum for this request.")
        return parse_body(model, bytes(self._kept))

    def query(self, model: type[T]) -> T:
        given = {name: values for name, values in self.request.query_arguments.items() if name != "_xsrf"}
        return parse_query(model, given)

    async def find(self, job: str) -> Job | None:
        """The job with this id, else the caller's newest job with this name."""
        return await find_job(self.api, self.caller, job)

    @property
    def access(self) -> Access:
        return self.api.access(self.caller)

    def close_connection(self) -> None:
        """Abort the connection, so that the reader sees that the answer is incomplete."""
        self._stream.close()

    def send_at_once(self) -> None:
        """Send each piece of a stream when it is written. Otherwise it waits for the acknowledgement of the previous
        one, 40 ms."""
        self._stream.set_nodelay(True)

    @property
    def _stream(self) -> IOStream:
        stream: IOStream = self.request.connection.stream  # type: ignore[union-attr]
        return stream

    # -- answers ------------------------------------------------------------------------------------------

    def answer(self, view: Wire, status: int = 200) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(view.model_dump_json())

    def tell_event(self) -> None:
        """Name the latest event that the answer includes: `GET /events?after=` that id continues without a gap."""
        self.set_header("Runai-Event", str(self.api.book.last_event))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = _refusal_of(kwargs["exc_info"][1] if "exc_info" in kwargs else None, status_code)
        self.set_status(error.status)
        if error.status == 401:
            self.set_header("WWW-Authenticate", 'Bearer realm="runai"')
        if error.status == 405:
            self.set_header("Allow", ", ".join(sorted(self.endpoints)))
        if error.status == 503:
            self.set_header("Retry-After", "1")
        self.set_header("Content-Type", "application/problem+json")
        self.finish(problem_of(error).model_dump_json())

    def log_exception(self, typ: Any, value: BaseException | None, tb: Any) -> None:
        value = shortage(value) or value
        told = (self.request.method, self.request.path, value)
        if isinstance(value, Unavailable | HTTPError):
            log.warning("%s %s: %s", *told)
        elif isinstance(value, RunaiError) and value.status < 500:
            log.debug("%s %s: %s", *told)
        else:
            log.error("%s %s failed: %r", *told, exc_info=value)

    def on_finish(self) -> None:
        self.api.metrics.answered(self.request.method or "", type(self).__name__, self.get_status())


def unauthenticated(handler: RequestHandler) -> Unauthenticated:
    """The error for a caller who is not identified."""
    handler.set_header("WWW-Authenticate", 'Bearer realm="runai"')
    return Unauthenticated("Send a valid token as `Authorization: token …`; this one is missing, invalid or expired.")


def _refusal_of(error: BaseException | None, status: int) -> RunaiError:
    error = shortage(error) or error
    if isinstance(error, RunaiError):
        return error
    if isinstance(error, HTTPError):
        kind = BY_STATUS.get(error.status_code, RunaiError)
        told = kind(error.log_message or f"{error.reason or _TITLES.get(status, 'Refused')}.")
        if kind is RunaiError:
            told.status = error.status_code
        return told
    return RunaiError("The scheduler had an internal error; see its log.")


class NoSuchPath(ApiHandler):
    """The handler of unknown paths. Its answer is the same for everybody, so it needs no credentials."""

    async def prepare(self) -> None:
        self.limit_body(DISCARDED)
        raise NotFound(f"There is nothing at {self.request.path}; see /api/v1/openapi.json for the available paths.")
