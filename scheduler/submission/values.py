"""The kinds of values of options: how a word is read, and the error where it cannot be."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from scheduler.submission.amounts import read_array, read_duration, read_memory
from scheduler.submission.sweeps import read_parameter, read_space


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value.

    `read` turns a word into a value; it raises `ValueError` with a clause that says what to write. An option of a kind
    that `gathers` may be given several times: its values are lists or mappings, which are combined.
    """

    name: str
    read: Callable[[str], Any]
    metavar: str = ""
    gathers: bool = False
    choices: tuple[str, ...] = ()


def count(text: str) -> int:
    return _whole_number(text, least=1)


def whole(text: str) -> int:
    return _whole_number(text, least=0)


def _whole_number(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < least:
        raise ValueError(f"{text!r} is not a whole number of at least {least}")
    return number


def amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"{text!r} is not an amount; write 0 or more, such as 2 or 0.5")
    return number


def names(text: str) -> list[str]:
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise ValueError(f"{text!r} is not a list of names; write names with commas and no spaces between them")
    return found


def variable(text: str) -> dict[str, str]:
    """`NAME=VALUE`, or `NAME` for the value that it has in this process."""
    name, equals, value = text.partition("=")
    if not name:
        raise ValueError(f"{text!r} is not of the form NAME=VALUE")
    if not equals and name not in os.environ:
        raise ValueError(f"there is no variable {name} here; write {name}=VALUE")
    return {name: value if equals else os.environ[name]}


def switch(text: str) -> bool:
    """The value that a form sends for a ticked box; on a line a switch has no value."""
    if text != "true":
        raise ValueError(f"{text!r} is not `true`; otherwise leave the option out")
    return True


def _checked(read: Callable[[str], Any]) -> Callable[[str], str]:
    """Check a word with `read`, and keep it as written."""

    def check(text: str) -> str:
        read(text)
        return text

    return check


def choice(choices: Sequence[str]) -> Kind:
    def read(text: str) -> str:
        if text in choices:
            return text
        near = get_close_matches(text, choices, n=1)
        instead = f"did you mean {near[0]}?" if near else f"write {' or '.join(choices)}"
        raise ValueError(f"there is no {text!r}; {instead}")

    return Kind("choice", read, metavar="NAME", choices=tuple(choices))


TEXT = Kind("text", str, metavar="NAME")
SWITCH = Kind("switch", switch)
AMOUNT = Kind("amount", amount, metavar="N")
COUNT = Kind("count", count, metavar="N")
WHOLE = Kind("whole", whole, metavar="N")
MEMORY = Kind("memory", read_memory, metavar="SIZE")
DURATION = Kind("duration", read_duration, metavar="TIME")
NAMES = Kind("names", names, metavar="NAME,…", gathers=True)
VARIABLES = Kind("variables", variable, metavar="NAME=VALUE", gathers=True)
PARAMETERS = Kind("parameters", lambda text: dict([read_parameter(text)]), metavar="NAME=VALUE", gathers=True)
ARRAY = Kind("array", _checked(read_array), metavar="RANGE")
SPACE = Kind("space", _checked(read_space), metavar="NAME=VALUE,…;…")
GROUPS = Kind("groups", str)
"""Only a file can give them."""
