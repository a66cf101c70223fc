"""The reports of a job (`job.report(step=…, loss=…)`), as one continuous series over all its attempts."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

    from scheduler.client import Client

Point = dict[str, Any]

FACTS = ("time", "attempt", "rank", "step", "total", "cell", "cells")
"""The keys of a point that are not metrics."""

MOST = 10_000
"""The most reports that are kept of a job that is shown."""


def continuous(points: Iterable[Point]) -> list[Point]:
    """The points without those that a later attempt has repeated from an earlier step."""
    kept: dict[Any, list[Point]] = {}
    for point in points:
        line = kept.setdefault(point.get("rank"), [])
        step = point.get("step")
        while step is not None and line and _redone(line[-1], point):
            line.pop()
        line.append(point)
    return sorted((point for line in kept.values() for point in line), key=lambda point: point.get("time", 0))


def _redone(before: Point, now: Point) -> bool:
    step = before.get("step")
    return step is not None and step >= now["step"] and int(before.get("attempt", 1)) < int(now.get("attempt", 1))


class Reported:
    """The newest reports of a job's first worker."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._next = 0
        self._points: deque[Point] = deque(maxlen=MOST)

    def look(self, client: Client) -> bool:
        """Fetch new reports; whether there were any."""
        begun = self._next
        while (page := client.metrics(self._job, offset=self._next)).next != self._next:
            self._points += [point for point in page.points if point.get("rank", 0) == 0]
            self._next = page.next
        return self._next != begun

    @property
    def line(self) -> list[Point]:
        return continuous(self._points)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job. `left`: remaining seconds after its last report, at the rate of this attempt."""

    done: float
    total: float | None
    left: float | None


def progress(line: Sequence[Point]) -> Progress | None:
    """The progress by the last report of a continuous series: in steps, or in the cells of a notebook."""
    unit, whole = ("step", "total") if any("step" in point for point in line) else ("cell", "cells")
    counted = [point for point in line if _number(point.get(unit))]
    if not counted:
        return None
    last = counted[-1]
    first = next(point for point in counted if point.get("attempt") == last.get("attempt"))
    total = last.get(whole) if _number(last.get(whole)) else None
    steps = last[unit] - first[unit]
    left = None
    if total is not None and steps > 0:
        left = max(0.0, total - last[unit]) * (last.get("time", 0) - first.get("time", 0)) / steps
    return Progress(last[unit], total, left)


def metrics(line: Iterable[Point]) -> dict[str, list[float]]:
    """The values of each metric, in the order of reports."""
    found: dict[str, list[float]] = {}
    for point in line:
        for name, value in point.items():
            if name not in FACTS and _number(value):
                found.setdefault(name, []).append(value)
    return found


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def frame(points: Iterable[Point]) -> pandas.DataFrame:
    """The continuous series as a data frame: a row for each report, with `time` as a timestamp."""
    import pandas

    line = continuous(points)
    names = list(dict.fromkeys(name for point in line for name in point))
    columns = [name for name in FACTS if name in names] + [name for name in names if name not in FACTS]
    table = pandas.DataFrame(line, columns=columns)
    if "time" in table:
        table["time"] = pandas.to_datetime(table["time"], unit="s")
    return table
