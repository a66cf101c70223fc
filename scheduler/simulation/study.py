"""One trace, many policies: everything that `jupyter runai simulate` compares, played over the same jobs.

Where no pool file says what each project is guaranteed, it is guaranteed what it would have in a static partition, so that
the two can be compared: the same promise, kept by quotas instead of by walls. Partitions are sized on an earlier part of the
trace where `learn` names one, which is then left out of what is played.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.errors import Invalid
from scheduler.model import ONE, Environment, Node, NodePool, Pool, Project
from scheduler.simulation.baselines import POLICIES, Run, demand_quantile, play_baseline, play_static
from scheduler.simulation.metrics import Figures, figures
from scheduler.simulation.play import Costs, Player
from scheduler.simulation.trace import Trace

OURS, STATIC = "runai", "static"
NAMES = (OURS, STATIC, *POLICIES)


@dataclass(frozen=True, slots=True)
class Result:
    """One policy's run: its name for people, the GPUs it had, what came out."""

    name: str
    gpus: int
    runs: tuple[Run, ...]
    figures: Figures


@dataclass(frozen=True, slots=True)
class Study:
    """What is played. `played` is the trace without the part that partitions were sized on; `start` to `end` its window."""

    played: Trace
    partition: Mapping[str, int]
    pool: Pool
    nodes: int
    gpus_per_node: int
    start: float
    end: float
    costs: Costs
    every: float

    def play(self, names: Sequence[str], scales: Sequence[float] = (1.0,)) -> Iterator[Result]:
        """Each policy on the pool as it is, and ours on the pool at every scale."""
        for name in names:
            if name == STATIC:
                runs = play_static(self.played, self.partition, gpus_per_node=self.gpus_per_node)
                yield self._result(name, sum(self.partition.values()), runs)
            elif name == OURS:
                for scale in scales:
                    nodes = max(1, round(self.nodes * scale))
                    yield self._result(
                        name if scale == 1 else f"{name} × {scale:g}", nodes, self._ours(nodes)
                    )
            else:
                runs = play_baseline(self.played, name, nodes=self.nodes, gpus_per_node=self.gpus_per_node)
                yield self._result(name, self.nodes, runs)

    def _ours(self, nodes: int) -> tuple[Run, ...]:
        digits = len(str(nodes))
        fleet = [Node(f"n{number:0{digits}}", self.gpus_per_node) for number in range(nodes)]
        return Player(self.played, self.pool, fleet, self.costs, every=self.every).play()

    def _result(self, name: str, nodes: int, runs: tuple[Run, ...]) -> Result:
        done = sum(run.job.gpus * run.job.duration for run in runs) / ONE
        assert len(runs) == len(self.played.jobs), f"{name} lost a job"
        assert abs(done - self.played.gpu_seconds) <= 1e-6 * done, f"{name} did not do the same work"
        gpus = nodes * self.gpus_per_node
        return Result(name, gpus, runs, figures(runs, gpus=gpus, start=self.start, end=self.end))


def prepare(
    trace: Trace,
    *,
    nodes: int,
    gpus_per_node: int,
    quantile: float,
    learn: float,
    pool: Pool | None,
    costs: Costs,
    every: float,
) -> Study:
    """Size the partitions on the first `learn` seconds of the trace (the whole of it for 0) and set up the rest."""
    first, last = trace.jobs[0].submitted, trace.jobs[-1].submitted
    played = trace.window(first + learn, float("inf")) if learn else trace
    if not played.jobs or (learn and not trace.window(first, first + learn).jobs):
        raise Invalid("No jobs are left to play; learn from a shorter part of the trace.", field="learn")
    seen = trace.window(first, first + learn) if learn else trace
    partition = {
        **_smallest(played, gpus_per_node),
        **demand_quantile(seen, quantile, gpus_per_node=gpus_per_node),
    }
    for project, least in _smallest(played, gpus_per_node).items():
        partition[project] = max(partition[project], least)
    guaranteed = pool or _pool(partition, gpus_per_node)
    unknown = sorted(set(played.projects) - {project.name for project in guaranteed.projects})
    if unknown:
        raise Invalid(
            f"The pool file has no project “{unknown[0]}”, which the trace names.", field="projects"
        )
    start = played.jobs[0].submitted
    return Study(
        played, partition, guaranteed, nodes, gpus_per_node, start, max(last, start + 1.0), costs, every
    )  # fmt: skip


def worse_off(result: Result, static: Result, tolerance: float = 0.01) -> list[str]:
    """The projects whose jobs took longer on the mean, by more than `tolerance`, than in their own partition."""
    alone = static.figures.by_project
    return [p for p, mean in result.figures.by_project.items() if mean > alone[p] * (1 + tolerance)]


def _smallest(trace: Trace, gpus_per_node: int) -> dict[str, int]:
    """Whole nodes that hold each project's largest gang."""
    largest: dict[str, int] = {}
    for job in trace.jobs:
        largest[job.project] = max(largest.get(job.project, 1), -(-job.gpus // (gpus_per_node * ONE)))
    return largest


def _pool(partition: Mapping[str, int], gpus_per_node: int) -> Pool:
    projects = tuple(
        Project(name, guaranteed=nodes * gpus_per_node * ONE) for name, nodes in sorted(partition.items())
    )
    return replace(Pool(), node_pools=(NodePool("train", Environment.TRAIN),), projects=projects)
