"""What a job has reported (`job.report(step=…, loss=…)`), as one line over all its attempts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

Point = dict[str, Any]

FACTS = ("time", "attempt", "rank", "step", "total", "cell", "cells")
"""What stands in a point beside the metrics themselves."""


def continuous(points: Iterable[Point]) -> list[Point]:
    """The points without those that a later attempt, which went on from an earlier step, has made anew."""
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
    return (
        step is not None
        and step >= now["step"]
        and int(before.get("attempt", 1)) < int(now.get("attempt", 1))
    )


def frame(points: Iterable[Point]) -> pandas.DataFrame:
    """The continuous line as a data frame: a row for each report, with `time` as a point in time."""
    import pandas

    line = continuous(points)
    names = list(dict.fromkeys(name for point in line for name in point))
    columns = [name for name in FACTS if name in names] + [name for name in names if name not in FACTS]
    table = pandas.DataFrame(line, columns=columns)
    if "time" in table:
        table["time"] = pandas.to_datetime(table["time"], unit="s")
    return table
