"""The document describes exactly the served API, and is valid OpenAPI 3.1."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from scheduler.api.app import ROUTES, pattern
from scheduler.api.base import ApiHandler
from scheduler.api.openapi import describe

METHODS = {"get", "head", "post", "put", "patch", "delete", "options"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return describe(ROUTES, "/services/runai/")


def test_it_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()


def test_exactly_the_served_methods_are_described(document: dict[str, Any]) -> None:
    served = {
        (path, method)
        for path, handler in ROUTES
        for method in METHODS
        if getattr(handler, method) is not getattr(ApiHandler, method)
    }
    described = {(path, method) for path, item in document["paths"].items() for method in item}
    assert served == described


def test_every_operation_has_a_unique_name(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names))


def test_operations_with_a_scope_describe_their_refusals(document: dict[str, Any]) -> None:
    for item in document["paths"].values():
        for operation in item.values():
            closed = operation["security"] != []
            assert closed is ({"401", "403"} <= operation["responses"].keys())


def test_refusals_are_problems(document: dict[str, Any]) -> None:
    for item in document["paths"].values():
        for operation in item.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert answer["content"]["application/problem+json"]["schema"]["$ref"].endswith("/Problem")


def test_parameters_in_a_path_are_described(document: dict[str, Any]) -> None:
    for path, item in document["paths"].items():
        for operation in item.values():
            described = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert described == set(re.findall(r"\{(\w+)\}", path))


@pytest.mark.parametrize("path", [path for path, _ in ROUTES])
def test_a_path_becomes_a_pattern_that_matches_exactly_it(path: str) -> None:
    example = re.sub(r"\{(\w+)\}", lambda found: "a" * 64 if found[1] == "digest" else "j-1", path)
    assert re.fullmatch(pattern(path), example)
    assert "{" not in re.sub(r"\{\d+(,\d+)?\}", "", pattern(path))
