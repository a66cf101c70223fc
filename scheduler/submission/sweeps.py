"""A sweep over a grid of values, `lr=1e-3,1e-2;bs=32,64`, or a search in a space, `lr=1e-5..1e-1:log;bs=32,64`: the
parameters of each job, and the command with them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.model import Parameter
from scheduler.submission.amounts import LONGEST_ARRAY

_NUMBER = re.compile(r"[+-]?(?:\d+(?:_\d+)*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_RANGE = re.compile(rf"({_NUMBER.pattern})\.\.({_NUMBER.pattern})(:log)?")
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`, integers if both are; `log`: on a logarithmic scale."""

    low: int | float
    high: int | float
    log: bool = False


def read_sweep(text: str) -> list[dict[str, Parameter]]:
    """Every combination, the last name changing fastest. Raises `ValueError`."""
    values = {name: [read_value(word) for word in words] for name, words in _read(text).items()}
    for name, words in _read(text).items():
        if any(_RANGE.fullmatch(word) for word in words):
            raise ValueError(f"{name} is a range, which is for %runai_train --search optuna; list its values")
    grid = [dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())]
    if len(grid) > LONGEST_ARRAY:
        raise ValueError(f"makes {len(grid):,} jobs; a sweep may have at most {LONGEST_ARRAY:,}")
    return grid


def read_space(text: str) -> dict[str, Range | list[Parameter]]:
    """The space of a search, by name: a range or several values. Raises `ValueError`."""
    return {
        name: _range(name, words[0])
        if len(words) == 1 and _RANGE.fullmatch(words[0])
        else [read_value(word) for word in words]
        for name, words in _read(text).items()
    }


def _range(name: str, word: str) -> Range:
    match = _RANGE.fullmatch(word)
    assert match is not None
    low, high = _number(match[1]), _number(match[2])
    if low >= high or (match[3] and low <= 0):
        positive = ", and with :log its start above 0" if match[3] else ""
        raise ValueError(f"{name}: the end of a range must be above its start{positive}")
    return Range(low, high, bool(match[3]))


def _read(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, equals, listed = part.partition("=")
        name = name.strip()
        words = [word.strip() for word in listed.split(",")]
        if not equals or not name.isidentifier() or not all(words):
            raise ValueError(f"{part!r} is not of the form NAME=VALUE,VALUE")
        if name in found:
            raise ValueError(f"{name} is given twice")
        found[name] = words
    if not found:
        raise ValueError("names nothing to vary; write lr=1e-3,1e-2;bs=32,64")
    return found


def read_value(word: str) -> Parameter:
    """A number if it looks like one, `true` or `false`, else the text itself."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    return _number(word) if _NUMBER.fullmatch(word) else word


def _number(word: str) -> int | float:
    try:
        return int(word)
    except ValueError:
        return float(word)


def read_parameter(text: str) -> tuple[str, Parameter]:
    """`lr=0.1` as a name and its value. Raises `ValueError`."""
    name, equals, word = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} is not of the form NAME=VALUE")
    return name, read_value(word)


def command_with(command: Sequence[str], parameters: Mapping[str, Parameter]) -> list[str]:
    """A command with the values in place of `{name}`, or else appended as `--name VALUE`."""
    placed = {name for word in command for name in _PLACE.findall(word) if name in parameters}

    def filled(word: str) -> str:
        return _PLACE.sub(lambda found: _word(parameters[found[1]]) if found[1] in placed else found[0], word)

    behind = [word for name, value in parameters.items() if name not in placed for word in (f"--{name}", _word(value))]
    return [*map(filled, command), *behind]


def _word(value: Parameter) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
