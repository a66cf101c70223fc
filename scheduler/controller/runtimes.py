"""How long jobs run: what their owners declare, what earlier jobs like them took, or the longest that they may. And on
which types of GPU those ran how fast (`throughputs.py`).

Pure and in memory: it is rebuilt from the latest jobs of the store at start. It is an estimate and nothing more: nobody
is stopped because of it. What must hold: the same jobs in the same order give the same estimates, and the memory is
bounded.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from posixpath import basename
from statistics import median

from scheduler.controller.throughputs import MeasuredThroughput, ThroughputHistory, attempts_of, throughputs_of
from scheduler.model import Job, JobId, JobState, Milli, RelativeThroughputs, Workload
from scheduler.policy import Residuals, SimilarRuns

RECENT = 10
"""So many of the latest jobs of a kind are remembered …"""

KINDS = 5_000
"""… of so many kinds; those that ended longest ago are forgotten."""

REMEMBERED = 1_000
"""So many of the latest jobs of the store are learned from at start."""

NOTABLE = 0.2
"""By what part an estimate must change for those that wait to be expected anew."""

SLIGHT = 50
"""By how many thousandths a throughput must change for that."""

_NUMBER = re.compile(r"\d+(\.\d+)?")


class Source(StrEnum):
    """What an estimate rests on: the owner's word, earlier jobs like it, or its longest run time."""

    DECLARED = "declared"
    LEARNED = "learned"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Estimate:
    """For how many seconds a job is expected to run."""

    seconds: float
    source: Source


@dataclass(slots=True)
class _Kind:
    """What the latest jobs of a kind took, and what those like them were told to be expected."""

    took: deque[tuple[float, str | None]] = field(default_factory=lambda: deque(maxlen=RECENT))
    told: float = math.inf
    history: ThroughputHistory = field(default_factory=ThroughputHistory)
    relative: tuple[RelativeThroughputs, RelativeThroughputs] = ((), ())

    def expected(self, gpu_type: str | None = None) -> float:
        """The seconds that they took; on a type of GPU that is known, as if all of them had run there."""
        throughputs = dict(self.relative[0])
        if gpu_type not in throughputs:
            return median([seconds for seconds, _ in self.took])
        here = throughputs[gpu_type]
        return median([seconds * throughputs.get(there or "", here) / here for seconds, there in self.took])

    def moves(self) -> bool:
        """Whether what they took, or how fast they were where, is notably another than was told; it is told then."""
        moved = False
        if self.took:
            expected = self.expected()
            moved = not abs(expected - self.told) <= NOTABLE * self.told < math.inf
            self.told = expected if moved else self.told
        relative = self.history.relative
        if any(_differ(dict(before), dict(now)) for before, now in zip(self.relative, relative, strict=True)):
            self.relative = relative
            moved = True
        return moved


def _differ(before: Mapping[str, Milli], now: Mapping[str, Milli]) -> bool:
    return before.keys() != now.keys() or any(abs(now[name] - before[name]) > SLIGHT for name in now)


class RunTimes:
    """What ended jobs took, and which unfinished ones are like them."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self._unfinished: dict[Hashable, dict[JobId, None]] = {}
        self.similar = SimilarRuns()
        self.residuals = Residuals()

    def runs_like(self, job: Job) -> Sequence[float]:
        """The seconds that similar jobs took, ascending: those with the same arguments, or else like it, or else, where
        nothing like it has ended, of the same user and project and as large, or of the project; empty where its owner
        has said how long it runs, or too few have ended to tell. May be asked from another thread."""
        if job.request.expected_runtime is not None:
            return ()
        kind = self._kinds.get(likeness(job))
        alike, others = _likenesses(job)
        runs = self.similar.like(alike)
        if not runs and not (kind and kind.took):
            runs = self.similar.like(others)
        longest = job.program.max_runtime
        return runs if longest is None else tuple([min(seconds, longest) for seconds in runs])

    def estimate(self, job: Job) -> Estimate | None:
        """The owner's word before what was learned before the longest run time, which bounds them all."""
        longest = job.program.max_runtime
        declared = job.request.expected_runtime
        if declared is not None:
            found = Estimate(declared, Source.DECLARED)
        elif (kind := self._kinds.get(likeness(job))) and kind.took:
            runs_on = job.attempt.gpu_type if job.attempt and job.state.holds_gpus else None
            found = Estimate(kind.expected(runs_on), Source.LEARNED)
        else:
            return None if longest is None else Estimate(longest, Source.LIMIT)
        return found if longest is None else replace(found, seconds=min(found.seconds, longest))

    def workload(self, job: Job) -> Workload:
        """What the policy sees of a job, with the time that it is expected to run, and how fast on which type of
        GPU."""
        workload, estimate = job.workload(), self.estimate(job)
        kind = self._kinds.get(likeness(job))
        throughputs, spread = kind.relative if kind else ((), ())
        if estimate is None and not throughputs:
            return workload
        seconds = estimate.seconds if estimate else None
        request = replace(
            workload.request, expected_runtime=seconds, throughputs=throughputs, spread_throughputs=spread
        )
        return replace(workload, request=request)

    def throughputs(self, job: Job) -> tuple[MeasuredThroughput, ...]:
        """How fast jobs like this one ran, on the fastest type of GPU first."""
        kind = self._kinds.get(likeness(job))
        return kind.history.known if kind else ()

    def note(self, job: Job) -> None:
        """A job is new, or has changed."""
        kind = likeness(job)
        if not job.state.final:
            self._unfinished.setdefault(kind, {})[job.id] = None
        elif kind in self._unfinished:
            self._unfinished[kind].pop(job.id, None)
            if not self._unfinished[kind]:
                del self._unfinished[kind]

    def learn(self, job: Job) -> list[JobId]:
        """Learn from a job that has ended; the unfinished jobs that are now expected to run notably differently."""
        ran, measured = _ran(job), throughputs_of(job) if job.state.final else []
        if ran is None and not measured:
            return []
        likely = likeness(job)
        kind = self._kinds.setdefault(likely, _Kind())
        if ran is not None:
            kind.took.append(ran)
            alike, others = _likenesses(job)
            self.similar.learn((*alike, *others), ran[0])
        if measured:
            kind.history.learn(measured)
            for sort, reached, gpus in attempts_of(job):
                self.residuals.learn((likely, sort), reached, gpus)
        self._kinds.move_to_end(likely)
        if len(self._kinds) > KINDS:
            self._kinds.popitem(last=False)
        return list(self._unfinished.get(likely, ())) if kind.moves() else []


def likeness(job: Job) -> Hashable:
    """What jobs have in common that are expected to run equally long: project, user, name and program, and their shape.

    Numbers in a name count nothing (`run-12`, `lr-0.1`), nor do a program's options.
    """
    request, program = job.request, job.program
    return (
        request.project, job.user, program.kind, _NUMBER.sub("#", job.name), _what_runs(program.command),
        request.shape, request.workers, request.groups,
    )  # fmt: skip


def _likenesses(job: Job) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    """What similar jobs have in common, the most telling first: of those that run the same, and of others."""
    request = job.request
    alike = likeness(job)
    return (
        ((alike, request.gpus, job.program.command), alike),
        ((request.project, job.user, request.gpus), (request.project, request.gpus)),
    )


def _what_runs(command: tuple[str, ...]) -> tuple[str, ...]:
    """The program, and the first file or word that it is given: `python train.py`."""
    words = [word for word in command if not word.startswith("-")][:2]
    return tuple([basename(word.rstrip("/")) for word in words])


def _ran(job: Job) -> tuple[float, str | None] | None:
    """How long a job took that has succeeded: all its attempts where it saved its state between them, else the last;
    and on which type of GPU, if it was one."""
    if job.state is not JobState.SUCCEEDED:
        return None
    attempts = job.attempts if job.checkpointed is not None else job.attempts[-1:]
    spans = [a.ended - a.started for a in attempts if a.started is not None and a.ended is not None]
    types = {attempt.gpu_type for attempt in attempts}
    return (max(0.0, sum(spans)), types.pop() if len(types) == 1 else None) if spans else None
