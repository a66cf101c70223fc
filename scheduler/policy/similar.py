"""The run times of similar jobs, and the remaining run time of a job that already runs.

Run times spread over orders of magnitude, also those of similar jobs: a job that has run longer than most will run even
longer. So its end is not estimated from the median, but from the similar jobs that ran longer than it has (the mean
residual life of reliability theory, as a distribution).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from scheduler.model import Workload

RECENT = 100
"""The number of recent runs of a kind that are remembered …"""

RUNS = 100_000
"""… and of all kinds; the kinds that ended longest ago are forgotten."""

ENOUGH = 3
"""The number of runs of a kind from which they predict others."""

LEAST = 60.0
"""A job that has outlived all similar ones is expected to run as long again as it has run, and at least this long."""

GOLDEN = 0.6180339887498949
"""Multiples of it lie evenly between whole numbers, however many are taken (a sequence of low discrepancy)."""

SimilarRunTimes = Callable[[Workload], Sequence[float]]
"""The seconds that jobs like a workload took, ascending; empty where nothing is known but its expected run time."""


class SimilarRuns:
    """The run times of the latest jobs, by what they have in common, from the most to the least specific.

    Values are replaced and never changed, so another thread may read them.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[Hashable, tuple[float, ...]] = OrderedDict()
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    def learn(self, likenesses: Sequence[Hashable], seconds: float) -> None:
        """Record the run time of a job of these kinds that has succeeded."""
        for likeness in likenesses:
            before = self._runs.get(likeness, ())
            self._runs[likeness] = now = (*before[1 - RECENT :], seconds)
            self._runs.move_to_end(likeness)
            self._count += len(now) - len(before)
        while self._count > RUNS:
            _, forgotten = self._runs.popitem(last=False)
            self._count -= len(forgotten)

    def like(self, likenesses: Sequence[Hashable]) -> tuple[float, ...]:
        """The run times of the most similar jobs of which enough have ended, ascending."""
        for likeness in likenesses:
            runs = self._runs.get(likeness, ())
            if len(runs) >= ENOUGH:
                return tuple(sorted(runs))
        return ()


def run_time(runs: Sequence[float], ran: float, part: float) -> float:
    """The run time of a job that has run for `ran` seconds: that which `part` (0 to 1) of its like that ran longer do
    not exceed."""
    first = bisect_right(runs, ran)
    longer = len(runs) - first
    if longer:
        return runs[first + int(part * longer)]
    return ran + max(LEAST, ran) * part / (1 - part)


class Draws:
    """Parts for `run_time`, one workload after the other, spread so evenly that as many end early and late as will."""

    def __init__(self) -> None:
        self._drawn = 0

    def next(self) -> float:
        self._drawn += 1
        return (self._drawn * GOLDEN + 0.5) % 1.0


def between(runs: Sequence[float], low: float, high: float) -> tuple[float, float]:
    """The quantiles `low` and `high` of run times that are in ascending order."""
    last = len(runs) - 1
    return runs[round(low * last)], runs[round(high * last)]
