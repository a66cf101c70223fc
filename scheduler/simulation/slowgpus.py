"""GPUs slower than others of their type, which the policy is not told: what it gains by learning which they are.

A trace is simulated three times: slow GPUs unknown, learned from what jobs reach, and known from the start. The
patterns follow published measurements of two clusters.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from scheduler.model import ONE, GpuKey, Node, Pool
from scheduler.policy import Residuals
from scheduler.simulation.play import Costs, Player
from scheduler.simulation.slowness import Kind, Slowness, kind_of
from scheduler.simulation.trace import Trace

PATTERNS = {
    "clustered": "three GPUs on each of 2 in 27 nodes, 2.1 to 2.2 times as slow, as 6 of 219 GPUs of one cluster",
    "scattered": "20 in 296 GPUs, 5 to 40 % slow, as on another cluster",
    "one-kind": "the same, but only for half of the kinds of jobs (projects and their users)",
}


@dataclass(frozen=True, slots=True)
class SlowGpuFigures:
    """Mean seconds to the end with slow GPUs unknown, learned and known from the start; how many were found, and how
    many others were called slow."""

    pattern: str
    unknown: float
    learned: float
    known: float
    slow: int
    found: int
    wrong: int

    @property
    def recovered(self) -> float | None:
        """The part that learning saves of what full knowledge saves; `None` where that saves nothing."""
        gain = self.unknown - self.known
        return (self.unknown - self.learned) / gain if gain > 0 else None

    @property
    def regret(self) -> float:
        """How much longer jobs take than with full knowledge, in proportion."""
        return self.learned / self.known - 1


def slowness_of(pattern: str, nodes: Sequence[Node], trace: Trace, dice: random.Random) -> Slowness:
    """Slow GPUs after one of the patterns; at least one, if there is any GPU."""
    if pattern == "clustered":
        picked = dice.sample(nodes, max(1, round(len(nodes) * 2 / 27)))
        gpus = [GpuKey((node.name, gpu)) for node in picked for gpu in dice.sample(range(node.gpus), min(3, node.gpus))]
        return Slowness({gpu: dice.uniform(2.1, 2.2) for gpu in gpus})
    every = [GpuKey((node.name, gpu)) for node in nodes for gpu in range(node.gpus)]
    gpus = dice.sample(every, max(1, round(len(every) * 20 / 296)))
    times = {gpu: 1.05 + 0.35 * dice.random() ** 2 for gpu in gpus}
    if pattern == "scattered":
        return Slowness(times)
    kinds: list[Kind] = sorted({kind_of(job) for job in trace.jobs}, key=str)
    return Slowness(times, frozenset(dice.sample(kinds, -(-len(kinds) // 2))))


def measure(
    pattern: str, trace: Trace, pool: Pool, nodes: Sequence[Node], costs: Costs, *, seed: int, every: float = 0.0
) -> SlowGpuFigures:
    """Simulate a trace with one of the patterns."""
    slowness = slowness_of(pattern, nodes, trace, random.Random(seed))
    return compare(pattern, slowness, trace, pool, nodes, costs, every=every)


def compare(
    pattern: str,
    slowness: Slowness,
    trace: Trace,
    pool: Pool,
    nodes: Sequence[Node],
    costs: Costs,
    *,
    every: float = 0.0,
) -> SlowGpuFigures:
    def completion(nodes: Sequence[Node], residuals: Residuals | None) -> float:
        runs = Player(trace, pool, nodes, costs, every=every, slowness=slowness, residuals=residuals).play()
        return mean(run.completion for run in runs)

    learned = Residuals()
    slow = slowness.gpus.keys()
    return SlowGpuFigures(
        pattern,
        completion(nodes, None),
        completion(nodes, learned),
        completion(_told(nodes, slowness.gpus), None),
        len(slow),
        len(learned.slow.keys() & slow),
        len(learned.slow.keys() - slow),
    )


def _told(nodes: Sequence[Node], times: Mapping[GpuKey, float]) -> tuple[Node, ...]:
    """The nodes with all that there is to know."""
    known = Residuals()
    known.slow = {gpu: round(ONE * slow) for gpu, slow in times.items()}
    return known.mark(nodes)
