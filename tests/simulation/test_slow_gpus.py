"""GPUs slower than others of their type, not declared as such: how many are found, and the benefit."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from scheduler.cli import main
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
    WorkerPlacement,
)
from scheduler.policy import Residuals
from scheduler.simulation.play import Costs, Player
from scheduler.simulation.slowgpus import PATTERNS, SlowGpuFigures, compare, slowness_of
from scheduler.simulation.slowness import Slowness
from scheduler.simulation.trace import Trace, TraceJob

NODES = tuple(Node(NodeName(f"n{n:02}"), 8, gpu_type=GpuType("V100")) for n in range(27))
KINDS = tuple(ProjectName(f"k{n}") for n in range(6))
POOL = Pool(
    node_pools=(NodePool(TRAIN_POOL, Environment.TRAIN),),
    projects=tuple(Project(name, guaranteed=None) for name in KINDS),
)
GPUS = tuple(GpuKey((node.name, gpu)) for node in NODES for gpu in range(node.gpus))


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


def play(pattern: str, slowness: Slowness, trace: Trace) -> SlowGpuFigures:
    return compare(pattern, slowness, trace, POOL, NODES, Costs())


def test_slow_gpus_are_found_and_avoided() -> None:
    dice = random.Random(1)
    slowness = slowness_of("clustered", NODES, Trace((), ""), dice)
    outcome = play("clustered", slowness, jobs(0.5, 2500, dice))
    assert outcome.slow == 6
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
    slowness, residuals = slowness_of("scattered", NODES, Trace((), ""), dice), Residuals()
    Player(jobs(0.5, 2500, dice), POOL, NODES, Costs(), slowness=slowness, residuals=residuals).play()
    assert residuals.slow
    assert residuals.slow.keys() <= slowness.gpus.keys()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_patterns_follow_the_published_figures(pattern: str) -> None:
    trace = jobs(0.5, 100, random.Random(1))
    slowness = slowness_of(pattern, NODES, trace, random.Random(2))
    assert slowness == slowness_of(pattern, NODES, trace, random.Random(2))
    times = slowness.gpus.values()
    if pattern == "clustered":
        assert (len(times), len({node for node, _ in slowness.gpus})) == (6, 2)
        assert all(2.1 <= slow <= 2.2 for slow in times)
    else:
        assert len(times) == 15
        assert all(1.05 <= slow <= 1.4 for slow in times)
    affected = [job for job in trace.jobs if slowness.of(job, place(slowness)) > 1]
    halved = {job.project for job in affected}
    assert len(halved) == (3 if pattern == "one-kind" else 6)
    assert all(job in affected for job in trace.jobs if job.project in halved)


def place(slowness: Slowness) -> tuple[WorkerPlacement, ...]:
    """A gang of a slow GPU and one that is not: it runs at the pace of the slow one."""
    (node, gpu), *_ = slowness.gpus
    return WorkerPlacement(node, (gpu,)), WorkerPlacement(NodeName("elsewhere"), (0,))


def test_the_command_says_what_learning_brings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{300 * n},{3000 + 7 * n},1,{'abc'[n % 3]}\n" for n in range(300)]
    path = tmp_path / "trace.csv"
    path.write_text("submit_time,duration,gpus,project\n" + "".join(lines))
    command = ["simulate", str(path), "--nodes", "2", "--policies", "runai", "--slow-gpus", "clustered,one-kind"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "slow GPUs: clustered: three GPUs on each of 2 in 27 nodes" in text
    head, clustered, one_kind = [line.split() for line in text.splitlines()[-3:]]
    assert (head[-1], clustered[:2], one_kind[:2]) == ("REGRET", ["clustered", "3"], ["one-kind", "1"])
    assert main([*command, "-o", "json"]) == 0
    found, _ = json.loads(capsys.readouterr().out)["slow_gpus"]
    assert found["found"] + found["wrong"] <= 16
    assert found["wrong"] == 0
    assert found["known"] <= found["unknown"]
    assert found["regret"] == pytest.approx(found["learned"] / found["known"] - 1)
    assert main([*command[:-1], "sometimes"]) == 1
    assert capsys.readouterr().err == (
        "There is no pattern “sometimes” of slow GPUs; available: clustered, scattered, one-kind.\n"
    )


if __name__ == "__main__":
    for pattern in PATTERNS:
        for load in (0.5, 0.6, 0.8):
            for seed in (1, 2):
                dice = random.Random(seed)
                trace = jobs(load, 2500, dice)
                outcome = play(pattern, slowness_of(pattern, NODES, trace, dice), trace)
                recovered = "" if outcome.recovered is None else f"recovered {outcome.recovered:.0%}"
                print(load, seed, outcome, recovered, f"regret {outcome.regret:.2%}", flush=True)
