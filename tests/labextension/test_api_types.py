"""The front end's types are those of the API."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

LABEXTENSION = Path(__file__).parents[2] / "labextension"


@pytest.fixture(scope="module")
def api_types() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api_types", LABEXTENSION / "scripts" / "api_types.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_types_of_the_front_end_are_those_of_the_api(api_types: ModuleType) -> None:
    assert api_types.TARGET.read_text() == api_types.render(), (
        "labextension/src/model/api.ts is out of date: run python labextension/scripts/api_types.py"
    )


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, "string"),
        (int | None, "number | null"),
        (list[str], "string[]"),
        (list[int | None], "(number | null)[]"),
        (dict[str, float], "Record<string, number>"),
    ],
)
def test_a_type_is_said_in_typescript(api_types: ModuleType, annotation: type, expected: str) -> None:
    class View(BaseModel):
        value: annotation  # type: ignore[valid-type]

    assert api_types.type_of(View.model_json_schema()["properties"]["value"]) == expected
