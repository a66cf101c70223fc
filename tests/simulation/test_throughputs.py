"""A pool of several GPU types, and jobs with throughputs measured on real ones."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from statistics import mean, median

import pytest

from scheduler.model import (
    ONE,
    TRAIN_POOL,
    Environment,
    GpuType,
    JobId,
    Node,
    NodeName,
    NodePool,
    Pool,
    Project,
    ProjectName,
    RelativeThroughputs,
    relative_throughputs,
)
from scheduler.simulation.baselines import Run
from scheduler.simulation.play import Costs, Player
from scheduler.simulation.trace import Trace, TraceJob

TYPES = K80, P100, V100 = GpuType("k80"), GpuType("p100"), GpuType("v100")
NODES = tuple(Node(NodeName(f"n{n:02}"), 4, gpu_type=TYPES[n % 3]) for n in range(12))
POOL = Pool(
    node_pools=(NodePool(TRAIN_POOL, Environment.TRAIN),), projects=(Project(ProjectName("all"), guaranteed=None),)
)
HOUR = 3600.0


def measured() -> dict[int, list[RelativeThroughputs]]:
    """The throughputs by kind of job and number of GPUs."""
    found: dict[int, list[RelativeThroughputs]] = {1: [], 4: []}
    with (Path(__file__).parent / "data" / "steps_per_second.csv").open() as file:
        for row in csv.DictReader(file):
            found[int(row["gpus"])].append(relative_throughputs({name: float(row[name]) for name in TYPES}))
    return found


def jobs(load: float, count: int = 1000) -> Trace:
    """Jobs of all kinds, 15 % of them on 4 GPUs; `load` is what they ask for where each type does an equal part of the
    work.

    On the fastest type one takes 50 minutes by the median.
    """
    dice, kinds = random.Random(1), measured()
    drawn = []
    for _ in range(count):
        gpus = 4 if dice.random() < 0.15 else 1
        drawn.append((gpus, min(max(dice.lognormvariate(8, 1), 300), 40_000), dice.choice(kinds[gpus])))
    work = mean(
        gpus * seconds * mean(ONE / throughput for _, throughput in throughputs) for gpus, seconds, throughputs in drawn
    )
    at, found = 0.0, []
    for number, (gpus, seconds, throughputs) in enumerate(drawn):
        at += dice.expovariate(load * sum(node.gpus for node in NODES) / work)
        found.append(
            TraceJob(JobId(f"j{number:04}"), at, seconds, gpus * ONE, ProjectName("all"), throughputs=throughputs)
        )
    return Trace(tuple(found), "")


def play(load: float, throughputs_known: bool) -> tuple[Run, ...]:
    return Player(jobs(load), POOL, NODES, Costs(), throughputs_known=throughputs_known).play()


def times(runs: tuple[Run, ...]) -> list[float]:
    return [run.spans[-1].end - run.job.submitted for run in runs]


def test_a_job_takes_as_long_as_its_slowest_workers_type_makes_it() -> None:
    throughputs = relative_throughputs({V100: 4.0, K80: 1.0})
    job = TraceJob(JobId("j"), 0.0, 100.0, 8 * ONE, ProjectName("all"), workers=8, throughputs=throughputs)
    for kinds, seconds in (((V100, V100), 100), ((V100, K80), 400), ((V100, P100), 100)):
        nodes = [Node(NodeName(f"n{n}"), 4, gpu_type=kind) for n, kind in enumerate(kinds)]
        (run,) = Player(Trace((job,), ""), POOL, nodes, Costs()).play()
        assert run.spans[-1].end == pytest.approx(seconds)


@pytest.mark.parametrize("load", [0.3, 0.9, 1.5])
def test_a_mixed_pool_is_done_sooner_with_mixed_jobs_where_speeds_are_known(load: float) -> None:
    known, unknown = play(load, True), play(load, False)
    assert mean(times(known)) < mean(times(unknown))
    assert sum(run.held for run in known) < sum(run.held for run in unknown)


if __name__ == "__main__":
    for load in (0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 3.0):
        for known in (False, True):
            runs = play(load, known)
            ended, held = times(runs), sum(run.held for run in runs) / HOUR
            end = max(run.spans[-1].end for run in runs) / HOUR
            print(f"{load} {known!s:5} {mean(ended) / HOUR:.2f} {median(ended) / HOUR:.2f} {held:.0f} {end:.1f}")
