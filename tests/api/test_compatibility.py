"""The API is compatible with that of the last release: its description has only additions.

`openapi-0.1.0.json` is the response of that release to `GET /api/v1/openapi.json`. Sentences for people may change;
what programs depend on may not.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.api.app import ROUTES
from scheduler.api.openapi import describe

Schema = Mapping[str, Any]

RELEASED: dict[str, Any] = json.loads(Path(__file__).with_name("openapi-0.1.0.json").read_text())

FOR_PEOPLE = {"description", "summary", "title", "tags", "info", "servers", "examples"}

LIMITS = {
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "uniqueItems", "additionalProperties", "propertyNames", "format", "const"),
}
"""Keywords that narrow a schema. In a request a limit may be removed but not added; in a response the reverse."""


def losses(old: Schema, new: Schema) -> Iterator[str]:
    """What a program written against `old` finds missing or narrower in `new`, one location per line."""
    for path, item in old["paths"].items():
        for method, operation in item.items():
            place = f"{method.upper()} {path}"
            if method not in new["paths"].get(path, {}):
                yield f"{place}: is gone"
            else:
                yield from _operation(operation, new["paths"][path][method], place)
    schemas = new["components"]["schemas"]
    sent = _reachable(new, lambda operation: [operation.get("requestBody")])
    answered = _reachable(new, lambda operation: [*operation["responses"].values()])
    for name, schema in old["components"]["schemas"].items():
        if name not in schemas:
            yield f"{name}: is gone"
            continue
        if name in sent:
            yield from _narrower(schema, schemas[name], name)
        if name in answered:
            yield from _narrower(schemas[name], schema, name, answer=True)


def _operation(old: Schema, new: Schema, place: str) -> Iterator[str]:
    for key in ("operationId", "security"):
        if old.get(key) != new.get(key):
            yield f"{place}: {key} was {old.get(key)} and is {new.get(key)}"
    before = {(each["in"], each["name"]): each for each in old.get("parameters", [])}
    after = {(each["in"], each["name"]): each for each in new.get("parameters", [])}
    for (kind, name), parameter in before.items():
        if (kind, name) not in after:
            yield f"{place}: parameter {name} is gone"
        else:
            yield from _narrower(parameter["schema"], after[kind, name]["schema"], f"{place} {name}")
    for (kind, name), parameter in after.items():
        if parameter["required"] and not before.get((kind, name), {"required": False})["required"]:
            yield f"{place}: parameter {name} has become required"
    if "requestBody" in old or new.get("requestBody", {}).get("required"):
        yield from _contents(old.get("requestBody", {}), new.get("requestBody", {}), f"{place} body")
    for status, answer in old["responses"].items():
        if status not in new["responses"]:
            yield f"{place}: no longer answers {status}"
        else:
            yield from _contents(answer, new["responses"][status], f"{place} {status}")


def _contents(old: Schema, new: Schema, place: str) -> Iterator[str]:
    if old.get("content", {}) != new.get("content", {}):
        yield f"{place}: was {old.get('content')} and is {new.get('content')}"


def _narrower(wide: Schema, narrow: Schema, place: str, *, answer: bool = False) -> Iterator[str]:
    """Where `narrow` refuses what `wide` allows.

    For a request, `wide` is the old schema. For a response it is the new one: it must be what a program expected,
    except for new fields and named values.
    """
    for key in wide.keys() | narrow.keys():
        if key in FOR_PEOPLE:
            continue
        was, now = wide.get(key), narrow.get(key)
        if key == "properties":
            yield from _properties(was or {}, now or {}, place, answer=answer)
        elif key == "required":
            yield from (
                f"{place}.{name}: " + ("may be absent" if answer else "has become required")
                for name in set(now or ()) - set(was or ())
            )
        elif key == "enum":
            old, new = (now, was) if answer else (was, now)
            if not set(old or ()) <= set(new or ()):
                yield f"{place}: was one of {old} and is one of {new}"
        elif key == "anyOf":
            for option in was or ():
                found = [list(_narrower(option, other, place, answer=answer)) for other in now or ()]
                if [] not in found:
                    yield f"{place}: {option} has no like in {now}"
        elif key == "default" and isinstance(was, dict) and isinstance(now, dict):
            released, new = (now, was) if answer else (was, now)
            if not released.items() <= new.items():
                yield f"{place}: default was {released} and is {new}"
        elif key in ("items", "schema") and was is not None and now is not None:
            yield from _narrower(was, now, f"{place}[]", answer=answer)
        elif was != now and not (key in LIMITS and now is None):
            yield (f"{place}: {key} was {was} and is {now}" if not answer else f"{place}: {key} was {now}, is {was}")


def _properties(wide: Schema, narrow: Schema, place: str, *, answer: bool) -> Iterator[str]:
    released = narrow if answer else wide
    for name in released:
        if name not in wide or name not in narrow:
            yield f"{place}.{name}: is gone"
        else:
            yield from _narrower(wide[name], narrow[name], f"{place}.{name}", answer=answer)


def _reachable(document: Schema, parts: Callable[[Schema], list[Any]]) -> set[str]:
    """The types in these parts of all operations, and their nested types."""
    found: set[str] = set()
    left = [part for item in document["paths"].values() for each in item.values() for part in parts(each)]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                left.append(document["components"]["schemas"].get(name))
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)
    return found


def test_the_description_has_only_been_added_to() -> None:
    assert sorted(losses(RELEASED, describe(ROUTES, "/"))) == []


def _remove(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return change


def _put(value: object, *path: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


SCHEMAS = ("components", "schemas")
SUBMIT = (*SCHEMAS, "JobSubmit", "properties")
VIEW = (*SCHEMAS, "JobView", "properties")
JOBS = ("paths", "/api/v1/jobs")


@pytest.mark.parametrize(
    "change",
    [
        _remove(*SCHEMAS, "SpeedView"),
        _remove("paths", "/api/v1/jobs/{job_id}/explain"),
        _remove(*JOBS, "get"),
        _remove(*JOBS, "get", "responses", "200"),
        _put([], *JOBS, "get", "parameters"),
        _put([], *JOBS, "post", "security"),
        _remove(*SUBMIT, "after"),
        _put({"type": "string"}, *SUBMIT, "workers"),
        _put(["project", "command", "name", "queue"], *SCHEMAS, "JobSubmit", "required"),
        _put(["cell"], *SCHEMAS, "JobKind", "enum"),
        _remove(*VIEW, "position"),
        _put({"type": "string"}, *VIEW, "position"),
        _put(["id"], *SCHEMAS, "JobView", "required"),
        _put(
            {**RELEASED["components"]["schemas"]["JobSubmit"]["properties"]["workers"], "maximum": 5},
            *SUBMIT,
            "workers",
        ),
    ],
)
def test_a_removal_from_the_description_is_found(change: Callable[[dict[str, Any]], None]) -> None:
    document = copy.deepcopy(RELEASED)
    change(document)
    assert list(losses(RELEASED, document))


@pytest.mark.parametrize(
    "change",
    [
        _put({}, "paths", "/api/v1/more"),
        _put({"type": "string"}, *SUBMIT, "queue"),
        _put({"type": "string"}, *VIEW, "queue"),
        _put("Another sentence.", *SCHEMAS, "JobView", "description"),
        _put({"type": "object"}, *SCHEMAS, "QueueView"),
    ],
)
def test_an_addition_to_the_description_is_accepted(change: Callable[[dict[str, Any]], None]) -> None:
    document = copy.deepcopy(RELEASED)
    change(document)
    assert list(losses(RELEASED, document)) == []
