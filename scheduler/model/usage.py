"""A project's recent use: how many GPUs it held on average, each instant counting half as much as one a half-life
later.

`average(t)` is the integral over all earlier instants s of `held(s) · ln 2 / h · 2^((s - t) / h)`, where h is the
half-life. The held amount changes in steps, so the integral is exact at every update. Slurm's decayed usage
(`PriorityDecayHalfLife`) is the same integral without the factor `ln 2 / h`, by which ours is a number of GPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scheduler.model.amounts import Milli
from scheduler.model.names import ProjectName


@dataclass(frozen=True, slots=True)
class ProjectUsage:
    """`average` is in thousandths of a GPU, at the instant `at`; `held` is what the project has held since then."""

    project: ProjectName
    average: float = 0.0
    held: Milli = 0
    at: float = 0.0

    def average_at(self, now: float, half_life: float) -> float:
        """The average at an instant that is not before `at`."""
        return self.held + (self.average - self.held) * _left(now - self.at, half_life)

    def hold(self, more: Milli, since: float, half_life: float) -> ProjectUsage:
        """The usage with `more` held (or less, where negative) since an instant, which may be before `at`."""
        now = max(self.at, since)
        average = self.average_at(now, half_life) + more * (1.0 - _left(now - since, half_life))
        return replace(self, average=average, held=self.held + more, at=now)


def _left(seconds: float, half_life: float) -> float:
    """The part that remains after decay over `seconds`."""
    return math.exp2(-max(0.0, seconds) / half_life)
