"""How fast an attempt was: the steps a second by what its first worker has reported of itself.

The job wrote the file, so whatever it holds is judged and nothing of it is believed but numbers that can be right. The
latest part of it is enough: there a job runs at its full speed, and no file is too long.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise

FILE = "metrics.jsonl"
"""What a job reports of itself, a line of JSON each, in its output folder: one file over all attempts."""

TAIL = 2**18
"""So many bytes at its end are looked at."""

INSTANT = 0.001
"""In so many seconds no throughput is measured."""

MOST_STEPS = 2**53
"""Beyond this a number counts no steps."""


def steps_per_second(tail: bytes, attempt: int) -> float | None:
    """By the reports of rank 0 of an attempt in the end of the file; `None` where these don't tell.

    A counter that restarts continues to count.
    """
    points = list(_points(tail.splitlines(), attempt))
    steps = sum(max(0, after - before) for (_, before), (_, after) in pairwise(points))
    seconds = points[-1][0] - points[0][0] if points else 0.0
    return steps / seconds if steps and seconds > INSTANT else None


def _points(lines: list[bytes], attempt: int) -> Iterator[tuple[float, int]]:
    """The time and the step of each report that has one."""
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and (found.get("attempt"), found.get("rank")) == (attempt, 0):
            time, step = found.get("time"), found.get("step")
            if isinstance(time, float) and math.isfinite(time) and isinstance(step, int) and 0 <= step < MOST_STEPS:
                yield time, step
