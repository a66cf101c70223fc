"""What a finished simulation says: one row of figures for a policy, by the rules of an honest comparison.

Utilisation is over a fixed window, never to the makespan. *Held* counts every GPU-second that a job had its GPUs,
*busy* takes off restarts and work done twice. Times are seconds, amounts are GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.simulation.baselines import Run


@dataclass(frozen=True, slots=True)
class Spread:
    """How a figure is distributed."""

    mean: float
    median: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Figures:
    """One policy over one trace.

    `by_project` has mean completion times, `completion_by_gpu_hours` is the mean in which a job counts by its work.
    """

    jobs: int
    held: float
    busy: float
    completion: Spread
    wait: Spread
    completion_by_gpu_hours: float
    slowdown: float
    makespan: float
    stops: int
    gpu_hours_lost: float
    gpu_hours: dict[str, float]
    by_project: dict[str, float]


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest of `values` (sorted) that at least `q` of them do not exceed."""
    return values[max(0, math.ceil(q * len(values)) - 1)]


def spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    mean = math.fsum(ordered) / len(ordered)
    return Spread(mean, quantile(ordered, 0.5), quantile(ordered, 0.9), quantile(ordered, 0.99))


def figures(runs: Sequence[Run], *, gpus: int, start: float, end: float) -> Figures:
    """The figures of `runs` on a pool of `gpus`, utilisation within `[start, end)`.

    Slowdown is bounded: completion over the longer of the job's duration and 10 s, at least 1 (Feitelson).
    """
    capacity = gpus * (end - start)
    held = math.fsum(run.held_within(start, end) for run in runs)
    lost = math.fsum(run.lost * run.held_within(start, end) / run.held for run in runs if run.lost)
    work = math.fsum(run.job.gpus * run.job.duration for run in runs)
    projects = sorted({run.job.project for run in runs})
    return Figures(
        jobs=len(runs),
        held=held / capacity,
        busy=(held - lost) / capacity,
        completion=spread(run.completion for run in runs),
        wait=spread(run.wait for run in runs),
        completion_by_gpu_hours=math.fsum(r.completion * r.job.gpus * r.job.duration for r in runs) / work,
        slowdown=math.fsum(max(1.0, r.completion / max(r.job.duration, 10.0)) for r in runs) / len(runs),
        makespan=max(run.ended for run in runs) - min(run.job.submitted for run in runs),
        stops=sum(run.stops for run in runs),
        gpu_hours_lost=math.fsum(run.lost for run in runs) / 3600,
        gpu_hours={p: math.fsum(r.held for r in runs if r.job.project == p) / 3600 for p in projects},
        by_project={p: spread(r.completion for r in runs if r.job.project == p).mean for p in projects},
    )
