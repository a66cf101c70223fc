"""Fairness: each team and each job compared with its own static partition, and guarantees that were not met.

A static partition is the baseline: a team that waits longer in the shared pool than alone on its own GPUs has paid for
the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.model import Milli
from scheduler.simulation.baselines import Run
from scheduler.simulation.metrics import quantile

TOLERANCE = 0.01
"""A team whose mean completion time is longer by less than that is not called worse off."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Completion time shared over completion time alone, job by job: quantiles, and the part of the jobs that took
    longer."""

    p10: float
    median: float
    p90: float
    p99: float
    longer: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A policy against static partitions. `teams` has mean completion over mean completion alone, by project."""

    teams: dict[str, float]
    jobs: Ratios
    jobs_by_team: dict[str, Ratios]

    @property
    def worse_off(self) -> list[str]:
        return [team for team, ratio in self.teams.items() if ratio > 1 + TOLERANCE]


def compare(shared: Sequence[Run], alone: Sequence[Run]) -> Comparison:
    """The same jobs, shared and alone. A ratio compares what took at least a second."""
    own = {run.job.id: run.completion for run in alone}
    pairs: dict[str, list[tuple[float, float]]] = {}
    for run in shared:
        pairs.setdefault(run.job.project, []).append((run.completion, own[run.job.id]))
    means = {
        team: sum(here for here, _ in some) / max(1.0, sum(there for _, there in some))
        for team, some in sorted(pairs.items())
    }
    by_team = {team: _ratios(some) for team, some in sorted(pairs.items())}
    return Comparison(means, _ratios([pair for some in pairs.values() for pair in some]), by_team)


def _ratios(pairs: Iterable[tuple[float, float]]) -> Ratios:
    ordered = sorted(max(1.0, here) / max(1.0, there) for here, there in pairs)
    longer = sum(ratio > 1 + TOLERANCE for ratio in ordered) / len(ordered)
    p10, median, p90, p99 = (quantile(ordered, q) for q in (0.1, 0.5, 0.9, 0.99))
    return Ratios(p10, median, p90, p99, longer)


def deprived(runs: Iterable[Run], guarantees: Mapping[str, Milli]) -> dict[str, float]:
    """Seconds in which a team had a job waiting that would stay inside its guarantee, while others were over theirs.

    The seconds that a victim has for saving its state count, too.
    """
    held = dict.fromkeys(guarantees, 0)
    waiting: dict[str, dict[Milli, int]] = {team: {} for team in guarantees}
    since: dict[str, float] = {}
    total = dict.fromkeys(guarantees, 0.0)
    over: set[str] = set()
    spent, last = 0.0, 0.0  # how long a team has been over its guarantee so far, and until when that is counted
    for now, team, gpus, waits, holds in sorted(_changes(runs)):
        if over:
            spent += now - last
        last = now
        held[team] += gpus * holds
        waiting[team][gpus] = waiting[team].get(gpus, 0) + waits
        if not waiting[team][gpus]:
            del waiting[team][gpus]
        (over.add if held[team] > guarantees[team] else over.discard)(team)
        lacks = bool(waiting[team]) and held[team] + min(waiting[team]) <= guarantees[team]
        if lacks and team not in since:
            since[team] = spent
        elif not lacks and team in since:
            total[team] += spent - since.pop(team)
    return total


def _changes(runs: Iterable[Run]) -> Iterator[tuple[float, str, Milli, int, int]]:
    """When a job begins (1) or ceases (-1) to wait, and to hold: time, team, GPUs, and the change of each."""
    for run in runs:
        team, gpus, since = run.job.project, run.job.gpus, run.job.submitted
        for span in run.spans:
            if span.start > since:
                yield since, team, gpus, 1, 0
                yield span.start, team, gpus, -1, 0
            yield span.start, team, span.gpus, 0, 1
            yield span.end, team, span.gpus, 0, -1
            since = span.end
