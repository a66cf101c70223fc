"""The front end's types are those of the API, and its options those of the table."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

from scheduler.submission.options import Interface, of

LABEXTENSION = Path(__file__).parents[2] / "labextension"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, LABEXTENSION / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def api_types() -> ModuleType:
    return script("api_types")


def test_the_types_of_the_front_end_are_those_of_the_api(api_types: ModuleType) -> None:
    assert api_types.TARGET.read_text() == api_types.render(), (
        "labextension/src/model/api.ts is out of date: run python labextension/scripts/api_types.py"
    )


def test_the_options_of_the_dialog_are_those_of_the_table() -> None:
    table = script("option_table")
    text = table.TARGET.read_text()
    assert text == table.render(), (
        "labextension/src/model/options.ts is out of date: run python labextension/scripts/option_table.py"
    )
    assert re.findall(r"^    name: '(\w+)'", text, re.MULTILINE) == [option.name for option in of(Interface.DIALOG)]


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
def test_a_type_is_written_in_typescript(api_types: ModuleType, annotation: type, expected: str) -> None:
    class View(BaseModel):
        value: annotation  # type: ignore[valid-type]

    assert api_types.type_of(View.model_json_schema()["properties"]["value"]) == expected
