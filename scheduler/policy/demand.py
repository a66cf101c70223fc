"""The demand of jobs for GPUs by the hour, and its forecast from earlier weeks.

The demand of an hour is the average number of GPUs that jobs held or waited for. The forecast of an hour is the median
of the same hours of earlier weeks; its range is from the 10th to the 90th percentile of these hours and those before
and after them. How good it is is measured on the latest week, which is forecast from the weeks before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from scheduler.model import ONE, Milli

HOUR = 3600
WEEK = 168
"""Hours."""

LEAST, MOST = 0.1, 0.9
"""The percentiles between which the range lies."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The demand of one hour: the most likely one, and its range."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class ForecastError:
    """How wrong the forecast of a week was: the mean absolute error, in GPUs, and the share of hours in the range."""

    mean_absolute: float
    within: float


def demand_by_hour(jobs: Iterable[tuple[float, float, Milli]], start: int, hours: int) -> list[float]:
    """The demand of so many hours from `start` on; each job has GPUs that it wants from one instant to another."""
    found, steps = [0.0] * (hours + 1), [0.0] * (hours + 1)
    for submitted, ended, milli in jobs:
        first, last = max(0.0, (submitted - start) / HOUR), min(float(hours), (ended - start) / HOUR)
        if first >= last:
            continue
        gpus, a, b = milli / ONE, int(first), int(last)
        steps[a] += gpus  # the whole of each hour from the first to the last one …
        steps[b] -= gpus
        found[a] -= gpus * (first - a)  # … but for what lies outside
        found[b] += gpus * (last - b)
    running = 0.0
    for hour in range(hours):
        running += steps[hour]
        found[hour] = max(0.0, found[hour] + running)
    return found[:hours]


def forecast(history: Sequence[float], hours: int = WEEK) -> list[Forecast]:
    """The demand of the next hours; empty if the history is shorter than a week."""
    if len(history) < WEEK:
        return []
    return [_hour(history, len(history) + ahead) for ahead in range(hours)]


def _hour(history: Sequence[float], at: int) -> Forecast:
    same = history[at % WEEK :: WEEK]
    near = sorted(value for offset in (-1, 0, 1) for value in history[(at + offset) % WEEK :: WEEK])
    middle = median(same)
    return Forecast(min(middle, _quantile(near, LEAST)), middle, max(middle, _quantile(near, MOST)))


def _quantile(values: Sequence[float], q: float) -> float:
    return values[max(0, math.ceil(q * len(values)) - 1)]


def measured(history: Sequence[float]) -> ForecastError | None:
    """The error for the latest week, forecast from the weeks before; none if there are not two weeks."""
    actual = history[-WEEK:]
    told = forecast(history[:-WEEK])
    if not told:
        return None
    errors = [abs(hour.median - value) for hour, value in zip(told, actual, strict=True)]
    within = sum(hour.low <= value <= hour.high for hour, value in zip(told, actual, strict=True))
    return ForecastError(math.fsum(errors) / WEEK, within / WEEK)
