"""OpenAPI 3.1, generated from the routes and types of the handlers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from scheduler import __version__
from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import EVENTS, JSON, Endpoint
from scheduler.errors import (
    Forbidden,
    Invalid,
    NotFound,
    RunaiError,
    TooLarge,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from scheduler.schema import Problem

Mode = Literal["validation", "serialization"]

_REF = "#/components/schemas/{model}"
_PARAMETER = re.compile(r"\{(\w+)\}")


def describe(routes: Iterable[tuple[str, type[ApiHandler]]], base_url: str) -> dict[str, Any]:
    """The document for `routes`; each method must have an `Endpoint`."""
    routes = list(routes)
    names, schemas = _schemas(endpoint for _, handler in routes for endpoint in handler.endpoints.values())
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jupyter-runai",
            "version": __version__,
            "description": "A GPU pool that lives inside Jupyter: its jobs, sessions, projects and events.",
        },
        "servers": [{"url": base_url}],
        "paths": {
            path: {
                method.lower(): _operation(path, method, endpoint, handler, names)
                for method, endpoint in handler.endpoints.items()
            }
            for path, handler in routes
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token from the hub or the state folder; `token …` is accepted, too.",
                },
                "worker": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token that a worker's agent is started with; it expires when the worker ends.",
                },
                "node": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of the service account of a node's agent, issued for its pod.",
                },
            },
        },
    }


def _schemas(endpoints: Iterable[Endpoint]) -> tuple[dict[type[BaseModel], dict[str, Any]], dict[str, Any]]:
    """A reference for each type, and the definitions."""
    types: dict[type[BaseModel], None] = dict.fromkeys(
        kind for endpoint in endpoints for kind in (endpoint.body, endpoint.answer) if kind is not None
    )
    kinds: list[type[BaseModel]] = [*types, Problem]
    wanted: list[tuple[type[BaseModel], Mode]] = [(kind, "validation") for kind in kinds]
    refs, document = models_json_schema(wanted, ref_template=_REF)
    return {kind: ref for (kind, _), ref in refs.items()}, document["$defs"]  # type: ignore[misc]


def _operation(
    path: str,
    method: str,
    endpoint: Endpoint,
    handler: type[ApiHandler],
    refs: dict[type[BaseModel], dict[str, Any]],
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{method.lower()}{handler.__name__.removesuffix('Handler')}",
        "summary": endpoint.summary,
        "tags": [path.removeprefix("/api/v1").split("/")[1].split(".")[0]],
        "security": _security(endpoint),
        "responses": _responses(path, method, endpoint, refs),
    }
    if endpoint.scope is not None:
        scope = f"the scope `custom:runai:{endpoint.scope.value}`"
        operation["description"] = f"Needs {_OWN_TOKENS.get(endpoint.scope, scope)}."
    parameters = [*_path_parameters(path), *_query_parameters(endpoint), *_header_parameters(endpoint)]
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": refs[endpoint.body]}}}
    elif endpoint.takes != JSON:
        operation["requestBody"] = {"required": True, "content": {endpoint.takes: {}}}
    return operation


def _security(endpoint: Endpoint) -> list[dict[str, list[str]]]:
    if endpoint.scope is None:
        return []
    return [{endpoint.scope.value if endpoint.scope in _OWN_TOKENS else "token": []}]


_OWN_TOKENS = {Scope.WORKER: "the token of a worker", Scope.NODE: "the token of a node's agent"}
"""Scopes of tokens that have no other scope."""


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    schema = endpoint.query.model_json_schema(ref_template=_REF)
    enums = schema.get("$defs", {})
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": field.pop("description", ""),
            "schema": _inline(field, enums),
        }
        for name, field in schema["properties"].items()
    ]


def _inline(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema with its references resolved: queries contain only simple values."""
    if isinstance(schema, list):
        return [_inline(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return definitions[schema["$ref"].rsplit("/", 1)[-1]]
    return {key: _inline(value, definitions) for key, value in schema.items()}


def _header_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": what,
            "schema": {"type": "string"},
        }
        for name, what in endpoint.headers
    ]


def _responses(
    path: str, method: str, endpoint: Endpoint, refs: dict[type[BaseModel], dict[str, Any]]
) -> dict[str, Any]:
    good: dict[str, Any] = {"description": HTTPStatus(endpoint.status).phrase}
    if endpoint.status != HTTPStatus.NO_CONTENT and method != "HEAD":
        good["content"] = {endpoint.media: _content(endpoint, refs)}
    responses: dict[str, Any] = {str(endpoint.status): good}
    for kind in _refusals(path, endpoint):
        responses[str(kind.status)] = {
            "description": (kind.__doc__ or "").strip().splitlines()[0],
            "content": {"application/problem+json": {"schema": refs[Problem]}},
        }
    return responses


def _content(endpoint: Endpoint, refs: dict[type[BaseModel], dict[str, Any]]) -> dict[str, Any]:
    if endpoint.answer is None:
        return {"schema": {"type": "object"}} if endpoint.media == JSON else {"schema": {"type": "string"}}
    if endpoint.media == EVENTS:
        return {
            "schema": {"type": "string", "description": "Server-sent events; the data of each is an Event."},
            "x-event": refs[endpoint.answer],
        }
    return {"schema": refs[endpoint.answer]}


def _refusals(path: str, endpoint: Endpoint) -> list[type[RunaiError]]:
    kinds: set[type[RunaiError]] = {TooLarge, *endpoint.refuses}
    if _PARAMETER.search(path):
        kinds.add(NotFound)  # such a path may name something that does not exist
    if endpoint.scope is not None:
        kinds |= {Unauthenticated, Forbidden, TooMany, Unavailable}
    if endpoint.body is not None or endpoint.query is not None:
        kinds.add(Invalid)
    return sorted(kinds, key=lambda kind: kind.status)
