"""How fast jobs of a kind ran on which type of GPU: what they reported (steps a second), or else how soon they were done.

Like is compared with like alone: the same measure, with as many workers. Of a type counts what was reached on one node, and
only where that is not known what was reached over several; where both are, both are told. The median of the latest attempts
is what is believed.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from scheduler.model import Attempt, Ending, Job, Node, Speeds, WorkerPlacement, relative_speeds

RECENT = 10
"""So many of the latest attempts of a sort are remembered …"""

SORTS = 64
"""… of so many sorts in a kind of jobs."""


class Unit(StrEnum):
    """What a pace counts: reported steps, or whole runs of the program."""

    STEPS = "steps"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Sort:
    """What attempts have in common whose paces can be put together."""

    unit: Unit
    workers: int
    gpu_type: str
    one_node: bool


Measured = tuple[Sort, float]
"""A sort of attempts, and what one of it reached a second."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What jobs of a kind reach on a type of GPU: so much a second, by the median of so many attempts; and over several nodes,
    where both are known."""

    gpu_type: str
    unit: Unit
    per_second: float
    attempts: int
    spread: float | None = None


class Paces:
    """Of one kind of jobs. The same jobs in the same order give the same paces."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Sort, deque[float]] = OrderedDict()
        self.known: tuple[Pace, ...] = ()
        """The fastest type first."""

    @property
    def speeds(self) -> tuple[Speeds, Speeds]:
        """What the policy is told, on one node and over several; nothing where there is nothing to compare."""
        if len(self.known) < 2:
            return (), ()
        spread = {pace.gpu_type: pace.spread for pace in self.known if pace.spread is not None}
        on_one = {pace.gpu_type: pace.per_second for pace in self.known}
        return relative_speeds(on_one), relative_speeds(spread, self.known[0].per_second)

    def learn(self, measured: Iterable[Measured]) -> None:
        """Learn from the attempts of a job that has ended."""
        for sort, pace in measured:
            self._seen.setdefault(sort, deque(maxlen=RECENT)).append(pace)
            self._seen.move_to_end(sort)
            if len(self._seen) > SORTS:
                self._seen.popitem(last=False)
        self.known = self._compared()

    def _compared(self) -> tuple[Pace, ...]:
        """The paces of the one measure and number of workers that tell of the most types; steps tell more than runs."""
        groups: dict[tuple[Unit, int], dict[str, list[Sort]]] = defaultdict(lambda: defaultdict(list))
        for sort in sorted(self._seen, key=lambda sort: not sort.one_node):
            groups[sort.unit, sort.workers][sort.gpu_type].append(sort)
        if not groups:
            return ()
        best = max(groups, key=lambda group: (len(groups[group]), group[0] is Unit.STEPS, group[1]))
        found = [self._pace(*sorts) for sorts in groups[best].values()]
        return tuple(sorted(found, key=lambda pace: (-pace.per_second, pace.gpu_type)))

    def _pace(self, sort: Sort, spread: Sort | None = None) -> Pace:
        reached = None if spread is None else median(self._seen[spread])
        return Pace(sort.gpu_type, sort.unit, median(self._seen[sort]), len(self._seen[sort]), reached)


def type_of(placement: Iterable[WorkerPlacement], nodes: Iterable[Node]) -> str | None:
    """The type of all GPUs of a placement; `None` where they are of several, or nobody has said."""
    there = {worker.node for worker in placement if worker.gpus}
    types = {node.gpu_type for node in nodes if node.name in there}
    return types.pop() if len(types) == 1 else None


def paces_of(job: Job) -> list[Measured]:
    """What the attempts of a job that has ended tell."""
    return [measured for attempt in job.attempts if (measured := _measure(attempt))]


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
