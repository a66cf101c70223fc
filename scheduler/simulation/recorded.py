"""Simulates recorded jobs, on the pool as it is and on a changed one, and compares both with the record.

The time in which a recorded job held GPUs counts as its work. Jobs that had been submitted before the window begins
fill the pool as they did then; only those submitted in the window are compared, and only those that run to their end in
all simulations. Notebook sessions are not simulated: jobs get the GPUs for training alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from scheduler.model import Environment, JobId, Node, Pool, Request
from scheduler.simulation.baselines import Run, Span
from scheduler.simulation.calendar import EPOCH
from scheduler.simulation.metrics import quantile
from scheduler.simulation.play import Costs, Player
from scheduler.simulation.trace import Trace, TraceJob

EVERY = 0.1
"""The policy plans at most once in this many seconds."""


@dataclass(frozen=True, slots=True)
class RecordedSpan:
    """A time in which `workers` of a job held `gpus` (thousandths)."""

    start: float
    end: float
    gpus: int
    workers: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How jobs fared, in seconds; `stops` is how often they were stopped to start again."""

    jobs: int
    mean_wait: float
    median_wait: float
    p95_wait: float
    mean_completion: float
    stops: int


@dataclass(frozen=True, slots=True)
class Side:
    """One of the compared pools. `use` is the share of its GPUs that jobs held in the window."""

    gpus: int
    use: float
    total: Outcome | None
    by_project: dict[str, Outcome]
    never_started: int = 0


@dataclass(frozen=True, slots=True)
class Replay:
    """`recorded`: what happened; `unchanged`: the record simulated on the pool as it is; `changed`: on another one."""

    recorded: Side
    unchanged: Side
    changed: Side


def recorded_run(id: str, request: Request, submitted: float, spans: Sequence[RecordedSpan]) -> Run:
    """A recorded job, in the times of a trace."""
    work = math.fsum((span.end - span.start) * span.workers for span in spans) / request.workers
    job = TraceJob(
        id=JobId(id),
        submitted=submitted - EPOCH,
        duration=max(work, 1e-3),
        gpus=request.gpus,
        project=request.project,
        user=request.user,
    )
    held = tuple(Span(span.start - EPOCH, span.end - EPOCH, span.gpus) for span in spans)
    return Run(job, held, stops=len(spans) - 1)


def replay(
    jobs: Sequence[tuple[Request, Run]],
    unchanged: tuple[Pool, Sequence[Node]],
    changed: tuple[Pool, Sequence[Node]],
    *,
    since: float,
    until: float,
) -> Replay:
    """Simulate the jobs on both pools."""
    record = tuple(run for _, run in jobs)
    sides = [(record, train_nodes(*unchanged))]
    for pool, nodes in (unchanged, changed):
        sides.append((_simulated(jobs, pool, train_nodes(pool, nodes)), train_nodes(pool, nodes)))
    ended = [{run.job.id for run in runs} for runs, _ in sides]
    compared = {run.job.id for run in record if run.job.submitted >= since - EPOCH}
    never = [len(compared - ids) for ids in ended]
    common = compared.intersection(*ended)
    return Replay(
        *(
            _side(runs, common, gpus=sum(node.gpus for node in nodes), since=since, until=until, never=count)
            for (runs, nodes), count in zip(sides, never, strict=True)
        )
    )


def train_nodes(pool: Pool, nodes: Iterable[Node]) -> tuple[Node, ...]:
    train = {node_pool.name for node_pool in pool.node_pools if node_pool.environment is Environment.TRAIN}
    return tuple(node for node in nodes if node.node_pool in train and node.schedulable)


def _simulated(jobs: Sequence[tuple[Request, Run]], pool: Pool, nodes: Sequence[Node]) -> tuple[Run, ...]:
    trace = Trace(tuple(sorted((run.job for _, run in jobs), key=lambda job: job.submitted)), "")
    pool = replace(pool, settings=replace(pool.settings, lending=False))
    requests = {run.job.id: request for request, run in jobs}
    return Player(trace, pool, nodes, Costs(), every=EVERY, requests=requests).play()


def _side(runs: Sequence[Run], compared: Collection[str], *, gpus: int, since: float, until: float, never: int) -> Side:
    held = math.fsum(run.held_within(since - EPOCH, until - EPOCH) for run in runs)
    found = [run for run in runs if run.job.id in compared]
    projects = sorted({run.job.project for run in found})
    of: Callable[[str], list[Run]] = lambda project: [run for run in found if run.job.project == project]  # noqa: E731
    return Side(
        gpus=gpus,
        use=held / (gpus * (until - since)) if gpus else 0.0,
        total=_outcome(found) if found else None,
        by_project={project: _outcome(of(project)) for project in projects},
        never_started=never,
    )


def _outcome(runs: Sequence[Run]) -> Outcome:
    waits = sorted(max(0.0, run.wait) for run in runs)
    return Outcome(
        jobs=len(runs),
        mean_wait=math.fsum(waits) / len(waits),
        median_wait=quantile(waits, 0.5),
        p95_wait=quantile(waits, 0.95),
        mean_completion=math.fsum(run.completion for run in runs) / len(runs),
        stops=sum(run.stops for run in runs),
    )
