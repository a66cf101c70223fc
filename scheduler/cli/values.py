"""What the values of options may be: each reads a word of the command line, or says in one clause what to write instead."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from scheduler.submission.amounts import read_array, read_duration, read_memory
from scheduler.submission.sweeps import read_parameter, read_sweep


def _reader(read: Callable[[str], Any], sentence: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error) if not sentence else f"{text!r} {sentence}") from None

    return convert


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if int(text) < least:
            raise ValueError
        return int(text)

    return read


def _number(text: str) -> float:
    if not 0 <= float(text) < float("inf"):
        raise ValueError
    return float(text)


def _assignment(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise ValueError
    return name, value if equals else None


def _fraction(text: str) -> float:
    if not 0 < float(text) <= 1:
        raise ValueError
    return float(text)


def _listed(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ValueError
    return words


def _factors(text: str) -> list[float]:
    factors = _amounts_of(text)
    if not all(factors):
        raise ValueError
    return factors


def _amounts_of(text: str) -> list[float]:
    return [_number(word) for word in _listed(text)]


def _quota_of(text: str) -> dict[str, Any]:
    """What a project has of a part of the pool, as `gpu_type=A100,guaranteed=4,limit=8`."""
    quota: dict[str, Any] = {}
    for word in _listed(text):
        name, _, value = word.partition("=")
        if name in ("node_pool", "gpu_type") and value:
            quota[name] = value
        elif name in ("guaranteed", "limit"):
            if value != "none":
                quota[name] = _number(value)
        else:
            raise ValueError
    if not quota.keys() & {"node_pool", "gpu_type"}:
        raise ValueError
    return quota


def _ruled(text: str) -> tuple[str, Any]:
    """A rule of a project's policy, such as `maxima.max_runtime=2h`, and its value."""
    name, _, value = text.partition("=")
    part, _, rule = name.partition(".")
    if not part or not rule or not value:
        raise ValueError
    if value == "none":
        return name, None
    if rule.endswith(("_runtime", "_timeout", "grace")):
        return name, read_duration(value)
    if rule == "preemptible":
        truths = [{"true": True, "false": False}.get(word, word) for word in _listed(value)]
        return name, truths if part == "allowed" else truths[0]
    if rule in ("gpu_types", "node_pools"):
        return name, _listed(value)
    number = _number(value)
    return name, int(number) if number.is_integer() else number


count = _reader(_at_least(1), "is not a number from 1 on")
whole = _reader(_at_least(0), "is not a number from 0 on")
amount = _reader(_number, "is not an amount; write a number such as 2 or 0.5")
bound = _reader(
    lambda text: None if text == "none" else _number(text), "is not an amount; write a number or `none`"
)
share = _reader(_fraction, "is not a share; write a number above 0 and up to 1")
names = _reader(_listed, "is not a list; write names with commas between them")
numbers = _reader(_factors, "is not a list of factors; write numbers above 0 with commas between them")
amounts = _reader(_amounts_of, "is not a list of amounts; write numbers with commas between them")
variable = _reader(_assignment, "is not of the form NAME=VALUE")
parameter = _reader(read_parameter, "")
quota = _reader(
    _quota_of,
    "is not a quota; write one such as gpu_type=A100,guaranteed=4,limit=8 or node_pool=fast,limit=2",
)
rule = _reader(
    _ruled,
    "is not a rule; write one such as maxima.gpus=4, allowed.gpu_types=A100,H100 or defaults.priority=none",
)
duration = _reader(read_duration, "")
memory = _reader(read_memory, "")
array = _reader(lambda text: read_array(text) and text, "")
sweep = _reader(lambda text: read_sweep(text) and text, "")
