"""Reads JSON that a job has written, if it can be passed on."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100
"""The deepest nesting that is accepted."""


def read_json(line: bytes) -> Any:
    """Numbers that JSON does not allow become `None`. Raises `ValueError`, also for what an answer cannot contain: lone
    surrogates, and nesting deeper than `DEEPEST`."""
    try:
        found = json.loads(line, parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("nested too deep") from None
    level = [found]
    for _ in range(DEEPEST):
        level = [inner for each in level if isinstance(each, (dict, list)) for inner in _inside(each)]
        if not level:
            break
    else:
        raise ValueError("nested too deep")
    if b"\\u" in line:
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    return value if isinstance(value, list) else list(value.values())
