"""The accuracy of estimated starts: the estimates that the running service would have given to every waiting job,
compared with actual starts.

Every so many seconds of the trace in which somebody waits, the policy is played forward from the pool as it stands,
with the run times of the similar jobs that have ended by then: those of the same project, user and size or, where there
are too few, of the same project and size. A job gets its estimate when it is first seen waiting, and whenever that has
changed notably. Jobs that waited over a minute for their first start count.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from scheduler.model import Node, Pool, Workload, WorkloadId
from scheduler.policy import Accuracy, SimilarRuns, Snapshot, Statement, forecast
from scheduler.simulation.metrics import quantile
from scheduler.simulation.trace import TraceJob

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class StatementErrors:
    """How good statements were. `error` (median and 90th percentile) is relative to the job's wait.

    `not_later` is the part of starts that came no later than the latest start told, `within` that of those within the
    range told, `range` the median width of the ranges relative to the wait.
    """

    statements: int
    error: float
    error_p90: float
    not_later: float
    within: float
    range: float


@dataclass(frozen=True, slots=True)
class ForecastAccuracyFigures:
    """`jobs` waited for over a minute, of which `untold` were never told a start; `first` is what the others were told
    at submission, `all` that and each change."""

    jobs: int
    untold: int
    looks: int
    first: StatementErrors | None
    all: StatementErrors | None


class ForecastAccuracy:
    """Looks ahead in one play of a trace, `every` so many seconds."""

    def __init__(self, every: float) -> None:
        self.every = every
        self.looks = 0
        self._similar = SimilarRuns()
        self._accuracy = Accuracy()
        self._looked = float("-inf")
        self._jobs: dict[WorkloadId, TraceJob] = {}
        self._begun: set[WorkloadId] = set()
        self._untold = 0
        self._told: list[tuple[float, float, list[Statement]]] = []

    def arrived(self, job: TraceJob) -> None:
        self._jobs[job.id] = job

    def started(self, id: WorkloadId, at: float) -> None:
        """A job starts, for the first time or again."""
        told = self._accuracy.came(id, at)
        if id in self._begun:
            return
        self._begun.add(id)
        wait = at - self._jobs[id].submitted
        if wait > MINUTE:
            self._untold += not told
            self._told.append((wait, at, told))

    def ended(self, job: TraceJob) -> None:
        self._similar.learn(_likenesses(job), job.duration)
        del self._jobs[job.id]

    def look(self, now: float, pool: Pool, nodes: tuple[Node, ...], workloads: Iterable[Workload]) -> None:
        """A plan was carried out at `now`."""
        if now < self._looked + self.every:
            return
        snapshot = Snapshot(now, pool, nodes, tuple(workloads))
        waiting = [workload.id for workload in snapshot.workloads if not workload.running]
        if not waiting:
            return
        self._looked = now
        self.looks += 1
        found = forecast(snapshot, self._runs_like)
        starts = {id: found.starts[id] for id in waiting if id in found.starts}
        self._accuracy.tell(now, starts)

    def _runs_like(self, workload: Workload) -> Sequence[float]:
        job = self._jobs[workload.id]
        return self._similar.like(_likenesses(job)) if job.expected is None else ()

    def figures(self) -> ForecastAccuracyFigures:
        told = [(wait, at, statements) for wait, at, statements in self._told if statements]
        return ForecastAccuracyFigures(
            jobs=len(self._told),
            untold=self._untold,
            looks=self.looks,
            first=_told([(wait, at, statements[0]) for wait, at, statements in told]),
            all=_told([(wait, at, each) for wait, at, statements in told for each in statements]),
        )


def _likenesses(job: TraceJob) -> tuple[Hashable, ...]:
    """What a trace tells that similar jobs have in common, the most telling first."""
    return (job.project, job.user, job.gpus), (job.project, job.gpus)


def _told(statements: Sequence[tuple[float, float, Statement]]) -> StatementErrors | None:
    if not statements:
        return None
    errors = sorted(abs(said.start - at) / wait for wait, at, said in statements)
    widths = sorted((said.range[1] - said.range[0] if said.range else 0.0) / wait for wait, _, said in statements)
    return StatementErrors(
        statements=len(statements),
        error=quantile(errors, 0.5),
        error_p90=quantile(errors, 0.9),
        not_later=sum(at <= said.latest for _, at, said in statements) / len(statements),
        within=sum(_earliest(said) <= at <= said.latest for _, at, said in statements) / len(statements),
        range=quantile(widths, 0.5),
    )


def _earliest(said: Statement) -> float:
    return said.range[0] if said.range else said.start
