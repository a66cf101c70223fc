"""JSON that a job wrote into a file of its own, a value a line: bounded, and such that it can be sent on.

Whatever a job writes, what comes out of here can be serialised: no endless nesting, no number that JSON does not have, no half
of a character.
"""

from __future__ import annotations

import json
import math
from typing import Any

DEEPEST = 100
"""So many lists and mappings may lie in each other."""

LARGEST = 2**63
"""A whole number beyond this is read as a float."""


def read_line(line: bytes) -> Any:
    """The value of a line. Raises `ValueError` for what is no JSON, or is nested too deeply."""
    try:
        return _sendable(json.loads(line, parse_constant=lambda _: None, parse_int=_number), DEEPEST)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _number(digits: str) -> float | int:
    number = int(digits) if len(digits) < 20 else float(digits)
    return number if -LARGEST <= number < LARGEST else float(digits)


def _sendable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, (dict, list)):
        return value
    if not depth:
        raise ValueError("nested too deeply")
    if isinstance(value, list):
        return [_sendable(each, depth - 1) for each in value]
    return {_sendable(name, 0): _sendable(each, depth - 1) for name, each in value.items()}
