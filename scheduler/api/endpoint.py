"""One method of one path, as data: who may call it, what it takes, what it answers.

A handler's method without an `Endpoint` cannot be called. Permissions are enforced from it, OpenAPI is generated from
it, and the tests iterate over it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_origin

from pydantic import BaseModel, ValidationError
from tornado.web import RequestHandler

from scheduler.api.access import Scope
from scheduler.errors import RunaiError
from scheduler.schema import Wire
from scheduler.schema.reading import refusal

JSON = "application/json"
TEXT = "text/plain"
BYTES = "application/octet-stream"
EVENTS = "text/event-stream"
LINES = "application/x-ndjson"

MAX_JSON = 1024 * 1024
"""The largest JSON body, in bytes."""

T = TypeVar("T", bound=BaseModel)
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`scope` is what the caller needs (`None`: open to everybody); `answer` is the type of a body in JSON. `for_jobs`:
    it is also open to jobs that may submit."""

    summary: str
    scope: Scope | None
    body: type[Wire] | None = None
    query: type[BaseModel] | None = None
    answer: type[Wire] | None = None
    media: str = JSON
    takes: str = JSON
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    refuses: tuple[type[RunaiError], ...] = ()
    for_jobs: bool = False


def endpoint(summary: str, scope: Scope | None, **rest: Any) -> Callable[[F], F]:
    """Describe a handler's method; see `Endpoint` for the names."""

    def mark(method: F) -> F:
        method.endpoint = Endpoint(summary, scope, **rest)  # type: ignore[attr-defined]
        return method

    return mark


def endpoints(handler: type[RequestHandler]) -> dict[str, Endpoint]:
    """The methods of a handler, by their names in HTTP."""
    found = ((name, getattr(handler, name.lower(), None)) for name in handler.SUPPORTED_METHODS)
    marks = ((name, getattr(method, "endpoint", None)) for name, method in found)
    return {name: mark for name, mark in marks if mark is not None}


def parse_body(model: type[T], body: bytes) -> T:
    """The body as `model`, taken strictly. Raises `Invalid` with the field at fault."""
    try:
        return model.model_validate_json(body or b"{}", strict=True)
    except ValidationError as error:
        raise refusal(error, model) from None


def parse_query(model: type[T], arguments: dict[str, list[bytes]]) -> T:
    """The query as `model`: a field that is a list takes every occurrence, any other the last one."""
    given: dict[str, Any] = {}
    for name, values in arguments.items():
        texts = [value.decode("utf-8", "replace") for value in values]
        known = model.model_fields.get(name)
        given[name] = texts if known and _is_list(known.annotation) else texts[-1]
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise refusal(error, model) from None


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list
