"""A sweep over a grid of values: `lr=1e-3,1e-2;bs=32,64` as the parameters of each job, and how a command gets them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from scheduler.amounts import LONGEST_ARRAY
from scheduler.model import Parameter

_NUMBER = re.compile(r"[+-]?(\d+(_\d+)*|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)")
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_sweep(text: str) -> list[dict[str, Parameter]]:
    """Every combination, the last name changing fastest. Raises `ValueError`."""
    values: dict[str, list[Parameter]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, equals, listed = part.partition("=")
        name = name.strip()
        words = [word.strip() for word in listed.split(",")]
        if not equals or not name.isidentifier() or not all(words):
            raise ValueError(f"{part!r} is not of the form NAME=VALUE,VALUE")
        if name in values:
            raise ValueError(f"{name} is given twice")
        values[name] = [read_value(word) for word in words]
    if not values:
        raise ValueError("names nothing to vary; write lr=1e-3,1e-2;bs=32,64")
    grid = [
        dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())
    ]
    if len(grid) > LONGEST_ARRAY:
        raise ValueError(f"makes {len(grid):,} jobs, and a sweep has {LONGEST_ARRAY:,} at the most")
    return grid


def read_value(word: str) -> Parameter:
    """A number where it looks like one, `true` and `false`, else the text itself."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if not _NUMBER.fullmatch(word):
        return word
    try:
        return int(word)
    except ValueError:
        return float(word)


def command_with(command: Sequence[str], parameters: Mapping[str, Parameter]) -> list[str]:
    """A command with its values: where `{name}` stands in it, else behind it as `--name VALUE`."""
    placed = {name for word in command for name in _PLACE.findall(word) if name in parameters}

    def filled(word: str) -> str:
        return _PLACE.sub(lambda found: _word(parameters[found[1]]) if found[1] in placed else found[0], word)

    behind = [
        word
        for name, value in parameters.items()
        if name not in placed
        for word in (f"--{name}", _word(value))
    ]
    return [*map(filled, command), *behind]


def _word(value: Parameter) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
