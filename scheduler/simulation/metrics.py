"""The results of a simulation: one row of figures for each policy, by the rules of a fair comparison.

Utilisation is over a fixed window, never to the makespan. *Held* counts every GPU-second that a job (or a session) had
its GPUs, *busy* takes off restarts, work done twice and the time in which a session's GPU did nothing. Everything else
is about jobs alone. Times are seconds, amounts are GPUs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from scheduler.model import ONE
from scheduler.simulation.baselines import Run

SIZES = (("1 GPU", 1.0), ("2–4 GPUs", 4.0), ("5–8 GPUs", 8.0), ("more than 8", float("inf")))
"""Size classes with the most GPUs in each; a job on a part of a GPU is in the first."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How a figure is distributed."""

    mean: float
    median: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Group:
    """The jobs of one project, or of one size class. `gpu_hours` is what they held."""

    jobs: int
    gpu_hours: float
    completion: Spread
    wait: Spread


@dataclass(frozen=True, slots=True)
class Figures:
    """One policy over one trace.

    `offered` is the work submitted in the window and `experiments_per_gpu` the jobs that ended in it, both for each GPU
    there is; `completion_by_gpu_hours` is the mean in which a job counts by its work.
    """

    jobs: int
    offered: float
    held: float
    busy: float
    experiments_per_gpu: float
    completion: Spread
    wait: Spread
    completion_by_gpu_hours: float
    slowdown: float
    makespan: float
    stops: int
    stopped_jobs: int
    gpu_hours_lost: float
    by_project: dict[str, Group]
    by_size: dict[str, Group]


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest of `values` (sorted) that at least `q` of them do not exceed."""
    return values[max(0, math.ceil(q * len(values)) - 1)]


def spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    mean = math.fsum(ordered) / len(ordered)
    return Spread(mean, quantile(ordered, 0.5), quantile(ordered, 0.9), quantile(ordered, 0.99))


def figures(runs: Sequence[Run], *, gpus: int, start: float, end: float, sessions: Sequence[Run] = ()) -> Figures:
    """The figures of `runs` on a pool of `gpus`, utilisation within `[start, end)`.

    Slowdown is bounded: completion over the longer of the job's duration and 10 s, at least 1 (Feitelson).
    """
    capacity = gpus * (end - start)
    held = [(run, run.held_within(start, end)) for run in itertools.chain(runs, sessions)]
    work = [run.job.gpus * run.job.duration / ONE for run in runs]
    weighted = math.fsum(run.completion * amount for run, amount in zip(runs, work, strict=True))
    return Figures(
        jobs=len(runs),
        offered=math.fsum(w for r, w in zip(runs, work, strict=True) if start <= r.job.submitted < end) / capacity,
        held=math.fsum(seconds for _, seconds in held) / capacity,
        busy=math.fsum(run.productive * seconds for run, seconds in held) / capacity,
        experiments_per_gpu=sum(run.ended < end for run in runs) / gpus,
        completion=spread(run.completion for run in runs),
        wait=spread(run.wait for run in runs),
        completion_by_gpu_hours=weighted / math.fsum(work) if any(work) else 0.0,
        slowdown=math.fsum(max(1.0, r.completion / max(r.job.duration, 10.0)) for r in runs) / len(runs),
        makespan=max(run.ended for run in runs) - min(run.job.submitted for run in runs),
        stops=sum(run.stops for run in runs),
        stopped_jobs=sum(run.stops > 0 for run in runs),
        gpu_hours_lost=math.fsum(run.lost for run in runs) / 3600,
        by_project=_groups(runs, lambda run: run.job.project),
        by_size=dict(sorted(_groups(runs, size_class).items(), key=lambda entry: _RANK[entry[0]])),
    )


def size_class(run: Run) -> str:
    return next(name for name, most in SIZES if run.job.gpus <= most * ONE)


_RANK = {name: rank for rank, (name, _) in enumerate(SIZES)}


def _groups(runs: Iterable[Run], key: Callable[[Run], str]) -> dict[str, Group]:
    members: dict[str, list[Run]] = {}
    for run in runs:
        members.setdefault(key(run), []).append(run)
    return {
        name: Group(
            jobs=len(group),
            gpu_hours=math.fsum(run.held for run in group) / 3600,
            completion=spread(run.completion for run in group),
            wait=spread(run.wait for run in group),
        )
        for name, group in sorted(members.items())
    }
