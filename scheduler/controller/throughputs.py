"""How fast jobs of a kind ran on each type of GPU, by the steps per second that they reported, or else by their run
times.

Only the same measure with the same number of workers is compared. For each type the throughput on one node counts, or
that over several nodes where only that is known; where both are known, both are reported. Each is the median of the
latest attempts.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from scheduler.model import (
    ONE,
    Attempt,
    Ending,
    GpuKey,
    GpuType,
    Job,
    Node,
    RelativeThroughputs,
    WorkerPlacement,
    relative_throughputs,
)

RECENT = 10
"""The number of recent attempts of a sort that are remembered …"""

SORTS = 64
"""… of this many sorts for each kind of jobs."""


class Unit(StrEnum):
    """What a throughput counts: reported steps, or whole runs of the program."""

    STEPS = "steps"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Sort:
    """What attempts with comparable throughputs have in common."""

    unit: Unit
    workers: int
    gpu_type: GpuType
    one_node: bool


Measured = tuple[Sort, float]
"""A sort of attempts, and the throughput per second of one attempt."""


@dataclass(frozen=True, slots=True)
class MeasuredThroughput:
    """The throughput of jobs of a kind on a type of GPU: the median `per_second` of `attempts`, and `spread` over
    several nodes where both are known."""

    gpu_type: GpuType
    unit: Unit
    per_second: float
    attempts: int
    spread: float | None = None


class ThroughputHistory:
    """The throughputs of one kind of jobs. The same jobs in the same order give the same throughputs."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Sort, deque[float]] = OrderedDict()
        self.known: tuple[MeasuredThroughput, ...] = ()
        """The fastest type first."""

    @property
    def relative(self) -> tuple[RelativeThroughputs, RelativeThroughputs]:
        """The relative throughputs on one node and over several, for the policy; empty where there is nothing to
        compare."""
        if len(self.known) < 2:
            return (), ()
        spread = {each.gpu_type: each.spread for each in self.known if each.spread is not None}
        on_one = {each.gpu_type: each.per_second for each in self.known}
        return relative_throughputs(on_one), relative_throughputs(spread, self.known[0].per_second)

    def learn(self, measured: Iterable[Measured]) -> None:
        """Learn from the attempts of a job that has ended."""
        for sort, throughput in measured:
            self._seen.setdefault(sort, deque(maxlen=RECENT)).append(throughput)
            self._seen.move_to_end(sort)
            if len(self._seen) > SORTS:
                self._seen.popitem(last=False)
        self.known = self._compared()

    def _compared(self) -> tuple[MeasuredThroughput, ...]:
        """The throughputs with the measure and number of workers for which most types are known; steps are preferred to
        runs."""
        groups: dict[tuple[Unit, int], dict[GpuType, list[Sort]]] = defaultdict(lambda: defaultdict(list))
        for sort in sorted(self._seen, key=lambda sort: not sort.one_node):
            groups[sort.unit, sort.workers][sort.gpu_type].append(sort)
        if not groups:
            return ()
        best = max(groups, key=lambda group: (len(groups[group]), group[0] is Unit.STEPS, group[1]))
        found = [self._throughput(*sorts) for sorts in groups[best].values()]
        return tuple(sorted(found, key=lambda each: (-each.per_second, each.gpu_type)))

    def _throughput(self, sort: Sort, spread: Sort | None = None) -> MeasuredThroughput:
        reached = None if spread is None else median(self._seen[spread])
        return MeasuredThroughput(sort.gpu_type, sort.unit, median(self._seen[sort]), len(self._seen[sort]), reached)


def type_of(placement: Iterable[WorkerPlacement], nodes: Iterable[Node]) -> GpuType | None:
    """The type of all GPUs of a placement; `None` where they are of several types or of unknown type."""
    there = {worker.node for worker in placement if worker.gpus}
    types = {node.gpu_type for node in nodes if node.name in there}
    return types.pop() if len(types) == 1 else None


def throughputs_of(job: Job) -> list[Measured]:
    """The throughputs of the attempts of a job that has ended."""
    return [measured for attempt in job.attempts if (measured := _measure(attempt))]


def attempts_of(job: Job) -> list[tuple[Sort, float, tuple[GpuKey, ...]]]:
    """The same for the attempts with whole GPUs, with their GPUs."""
    found = []
    for attempt in job.attempts:
        measured = _measure(attempt)
        if measured and all(worker.share == ONE for worker in attempt.placement):
            gpus = tuple(GpuKey((worker.node, gpu)) for worker in attempt.placement for gpu in worker.gpus)
            found.append((*measured, gpus))
    return found


def _measure(attempt: Attempt) -> Measured | None:
    if attempt.gpu_type is None or attempt.started is None or attempt.ended is None:
        return None
    workers, nodes = len(attempt.placement), {worker.node for worker in attempt.placement}
    if attempt.throughput is not None:
        return Sort(Unit.STEPS, workers, attempt.gpu_type, len(nodes) == 1), attempt.throughput
    seconds = attempt.ended - attempt.started
    if attempt.ending is not Ending.SUCCEEDED or attempt.number > 1 or seconds <= 0:
        return None
    return Sort(Unit.RUNS, workers, attempt.gpu_type, len(nodes) == 1), 1 / seconds
