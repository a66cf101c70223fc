"""GPUs slower than others of their type, not declared as such: how many are found, and the benefit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

import pytest

from scheduler.model import (
    ONE,
    TRAIN_POOL,
    Environment,
    GpuKey,
    GpuType,
    JobId,
    Node,
    NodeName,
    NodePool,
    Pool,
    Project,
    ProjectName,
)
from scheduler.policy import Residuals
from scheduler.simulation.play import Costs, Player
from scheduler.simulation.trace import Trace, TraceJob

NODES = tuple(Node(NodeName(f"n{n:02}"), 8, gpu_type=GpuType("V100")) for n in range(27))
KINDS = tuple(ProjectName(f"k{n}") for n in range(6))
POOL = Pool(
    node_pools=(NodePool(TRAIN_POOL, Environment.TRAIN),),
    projects=tuple(Project(name, guaranteed=None) for name in KINDS),
)
GPUS = tuple(GpuKey((node.name, gpu)) for node in NODES for gpu in range(node.gpus))


def two_nodes(dice: random.Random) -> Mapping[GpuKey, float]:
    """6 of 216 GPUs on two nodes, 2.1 to 2.2 times as slow, as was measured on a cluster of 219."""
    picked = [GpuKey((node.name, gpu)) for node in dice.sample(NODES, 2) for gpu in dice.sample(range(8), 3)]
    return {gpu: dice.uniform(2.1, 2.2) for gpu in picked}


def scattered(dice: random.Random) -> Mapping[GpuKey, float]:
    """15 of 216 GPUs, 5 to 40 % slow: the same share as 20 of 296 that were more than 5 % slow on another cluster."""
    return {gpu: 1.05 + 0.35 * dice.random() ** 2 for gpu in dice.sample(GPUS, 15)}


def jobs(load: float, count: int, dice: random.Random) -> Trace:
    found, at = [], 0.0
    for number in range(count):
        gpus = dice.choices((1, 2, 4, 8), (70, 10, 10, 10))[0]
        seconds = min(max(dice.lognormvariate(8, 1), 300), 40_000)
        at += dice.expovariate(load * len(GPUS) / (gpus_of_a_job() * seconds_of_a_job()))
        found.append(TraceJob(JobId(f"j{number:05}"), at, seconds, gpus * ONE, dice.choice(KINDS)))
    return Trace(tuple(found), "")


def gpus_of_a_job() -> float:
    return 0.7 + 0.2 + 0.4 + 0.8


def seconds_of_a_job() -> float:
    return 4_800.0


@dataclass(frozen=True)
class Outcome:
    """Mean hours to the end with slow GPUs unknown, learned and known from the start; how many were found, and called
    slow wrongly."""

    unknown: float
    learned: float
    known: float
    slow: int
    found: int
    wrong: int

    @property
    def recovered(self) -> float:
        """The fraction saved of what full knowledge would save."""
        return (self.unknown - self.learned) / (self.unknown - self.known)

    @property
    def regret(self) -> float:
        """The relative increase of completion times over full knowledge."""
        return self.learned / self.known - 1


def play(slowness: Mapping[GpuKey, float], trace: Trace) -> Outcome:
    def hours(nodes: tuple[Node, ...], residuals: Residuals | None) -> float:
        runs = Player(trace, POOL, nodes, Costs(), slowness=slowness, residuals=residuals).play()
        return mean(run.completion for run in runs) / 3600

    learned, told = Residuals(), Residuals()
    told.slow = {gpu: round(ONE * slow) for gpu, slow in slowness.items()}
    unknown = hours(NODES, None)
    return Outcome(
        unknown,
        hours(NODES, learned),
        hours(told.mark(NODES), None),
        len(slowness),
        len(learned.slow.keys() & slowness.keys()),
        len(learned.slow.keys() - slowness.keys()),
    )


def test_slow_gpus_are_found_and_avoided() -> None:
    dice = random.Random(1)
    outcome = play(two_nodes(dice), jobs(0.5, 2500, dice))
    assert outcome.wrong == 0
    assert outcome.found >= outcome.slow / 2
    assert outcome.known < outcome.learned < outcome.unknown


@pytest.mark.parametrize("seed", [1, 2])
def test_equal_gpus_are_never_slow(seed: int) -> None:
    dice = random.Random(seed)
    residuals = Residuals()
    Player(jobs(0.6, 800, dice), POOL, NODES, Costs(), residuals=residuals).play()
    assert residuals.slow == {}


def test_gpus_that_gangs_use_beside_slow_ones_are_not_called_slow() -> None:
    dice = random.Random(1)
    slowness, residuals = scattered(dice), Residuals()
    Player(jobs(0.5, 2500, dice), POOL, NODES, Costs(), slowness=slowness, residuals=residuals).play()
    assert residuals.slow
    assert residuals.slow.keys() <= slowness.keys()


if __name__ == "__main__":
    for name in (two_nodes, scattered):
        for load in (0.3, 0.6, 0.9):
            for seed in (1, 2, 3):
                dice = random.Random(seed)
                slowness = name(dice)
                outcome = play(slowness, jobs(load, 4000, dice))
                found = f"recovered {outcome.recovered:.2f} regret {outcome.regret:.2%}"
                print(name.__name__, load, seed, outcome, found, flush=True)
