"""The accuracy of past estimated starts, and from it the likely range of the next ones.

Future submissions are unknown, so an estimate is given with a range. Past estimates are compared with outcomes: the
actual wait relative to the estimated wait, among estimates of about equal length (split conformal prediction, Vovk et
al. 2005). A job that is overdue counts as late already. Where there are too few outcomes, no range is made. Pure and
bounded; the same calls in the same order give the same ranges.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import ceil, log2

from scheduler.model import WorkloadId
from scheduler.policy.forecast import Range

EARLY, LATE = 0.1, 0.95
"""The quantiles of outcomes that bound a range. One start in ten may come later than estimated; half of that is kept
for times that are unlike the past."""

OUTCOMES = 500
"""The number of recent outcomes that are remembered, for estimates of equal length within a factor of two."""

ENOUGH = 20
"""The number of outcomes from which there is a range."""

SOON = 60.0
"""Waits that are shorter than this, in seconds, count as this long: plans are not made to the second."""

NOTABLE = 0.1
"""An estimate is renewed when it has changed by this part of the remaining wait, and at least by `SOON`."""

JOBS, STATEMENTS = 1_000, 30
"""The number of jobs, and of statements for each, that are compared with outcomes."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The estimate made at `at` that a job starts at `start`, or within a range."""

    at: float
    start: float
    range: Range | None

    @property
    def latest(self) -> float:
        return self.range[1] if self.range else self.start

    @property
    def ahead(self) -> float:
        return _ahead(self.at, self.start)


@dataclass(slots=True)
class Accuracy:
    """`statements` are those for jobs that still wait."""

    statements: dict[WorkloadId, list[Statement]] = field(default_factory=dict)
    _outcomes: dict[int, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=OUTCOMES)))

    def tell(self, now: float, starts: Mapping[WorkloadId, float]) -> Mapping[WorkloadId, Range]:
        """Record these estimates, and return their ranges."""
        overdue, bounds, found = self._overdue(now), dict[int, Range | None](), dict[WorkloadId, Range]()
        for id, start in starts.items():
            distance = _distance(_ahead(now, start))
            if distance not in bounds:
                bounds[distance] = self._bounds(distance, overdue)
            range = _around(now, start, bounds[distance])
            if range is not None:
                found[id] = range
            self._note(id, Statement(now, start, range))
        return found

    def range(self, now: float, start: float) -> Range | None:
        """The range of one estimate, which is not recorded."""
        return _around(now, start, self._bounds(_distance(_ahead(now, start)), self._overdue(now)))

    def came(self, id: WorkloadId, at: float) -> list[Statement]:
        """A job starts; returns its estimates."""
        told = self.statements.pop(id, [])
        for statement in told:
            self._outcomes[_distance(statement.ahead)].append((at - statement.at) / statement.ahead)
        return told

    def keep(self, waiting: Collection[WorkloadId]) -> None:
        """Only these still wait; drop the estimates of the others, which will have no outcome."""
        self.statements = {id: told for id, told in self.statements.items() if id in waiting}

    def _note(self, id: WorkloadId, statement: Statement) -> None:
        told = self.statements.get(id)
        if told is None:
            if len(self.statements) < JOBS:
                self.statements[id] = [statement]
        elif len(told) < STATEMENTS and _differs(told[-1], statement):
            told.append(statement)

    def _overdue(self, now: float) -> Mapping[int, list[float]]:
        """The least possible lateness of waiting jobs whose estimated start has passed."""
        found: dict[int, list[float]] = defaultdict(list)
        for told in self.statements.values():
            for statement in told:
                waited = now - statement.at
                if waited > statement.ahead:
                    found[_distance(statement.ahead)].append(waited / statement.ahead)
        return found

    def _bounds(self, distance: int, overdue: Mapping[int, list[float]]) -> Range | None:
        came: list[float] = []
        for near in (distance - 1, distance, distance + 1):
            came += self._outcomes.get(near, ())
        if len(came) < ENOUGH:
            return None
        for near in (distance - 1, distance, distance + 1):
            came += overdue.get(near, ())
        came.sort()
        last = len(came) - 1
        return came[int(EARLY * last)], came[ceil(LATE * last)]


def _differs(before: Statement, now: Statement) -> bool:
    return abs(now.start - before.start) > max(SOON, NOTABLE * (now.start - now.at))


def _ahead(now: float, start: float) -> float:
    return max(SOON, start - now)


def _around(now: float, start: float, bounds: Range | None) -> Range | None:
    """The range of a start, from the quantiles of actual relative to estimated waits."""
    if bounds is None:
        return None
    ahead = _ahead(now, start)
    return min(start, now + bounds[0] * ahead), max(start, now + bounds[1] * ahead)


def _distance(ahead: float) -> int:
    return int(log2(ahead))
