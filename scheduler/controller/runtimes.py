"""How long jobs run: the owner's estimate, the run times of earlier jobs like them, or their maximum. Also how fast
those jobs ran on each type of GPU (`throughputs.py`).

Pure and in memory: it is rebuilt at start from the latest jobs of the store. It is only an estimate: no job is stopped
because of it. What must hold: the same jobs in the same order give the same estimates, and the memory is bounded.
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
from scheduler.model import UNKNOWN_TYPE, GpuType, Job, JobId, JobState, Milli, RelativeThroughputs, Workload
from scheduler.policy import Residuals, SimilarRuns

RECENT = 10
"""The number of recent jobs of a kind that are remembered …"""

KINDS = 5_000
"""… of this many kinds, the least recently used of which are forgotten."""

REMEMBERED = 1_000
"""The number of recent jobs of the store to learn from at start."""

NOTABLE = 0.2
"""The relative change of an estimate after which waiting jobs get a new one."""

SLIGHT = 50
"""The change of a throughput, in thousandths, after which they do."""

_NUMBER = re.compile(r"\d+(\.\d+)?")


class Source(StrEnum):
    """What an estimate is based on: the owner's estimate, earlier jobs like it, or its maximum run time."""

    DECLARED = "declared"
    LEARNED = "learned"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected run time of a job, in seconds."""

    seconds: float
    source: Source


@dataclass(slots=True)
class _Kind:
    """The run times of the latest jobs of a kind, and the estimate that jobs like them were given."""

    took: deque[tuple[float, GpuType | None]] = field(default_factory=lambda: deque(maxlen=RECENT))
    told: float = math.inf
    history: ThroughputHistory = field(default_factory=ThroughputHistory)
    relative: tuple[RelativeThroughputs, RelativeThroughputs] = ((), ())

    def expected(self, gpu_type: GpuType | None = None) -> float:
        """Their median run time in seconds; with a known type of GPU, converted to that type."""
        throughputs = dict(self.relative[0])
        if gpu_type not in throughputs:
            return median([seconds for seconds, _ in self.took])
        here = throughputs[gpu_type]
        return median([seconds * throughputs.get(there or UNKNOWN_TYPE, here) / here for seconds, there in self.took])

    def moves(self) -> bool:
        """Whether run times or throughputs differ notably from those given before; if so, the new ones are given."""
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


def _differ(before: Mapping[GpuType, Milli], now: Mapping[GpuType, Milli]) -> bool:
    return before.keys() != now.keys() or any(abs(now[name] - before[name]) > SLIGHT for name in now)


class RunTimes:
    """The run times of ended jobs, and the unfinished jobs that are like them."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self._unfinished: dict[Hashable, dict[JobId, None]] = {}
        self.similar = SimilarRuns()
        self.residuals = Residuals()

    def runs_like(self, job: Job) -> Sequence[float]:
        """The run times of similar jobs in seconds, ascending: those with the same arguments, else those like it, else
        those of the same user, project and size, else those of the project. Empty where its owner has given an
        estimate, or too few have ended. May be called from another thread."""
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
        """The owner's estimate, else the learned one, else the maximum run time, which bounds them all."""
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
        """A job as the policy sees it, with its expected run time and its throughput on each type of GPU."""
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
        """The throughputs of jobs like this one, the fastest type of GPU first."""
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
        """Learn from a job that has ended; returns the unfinished jobs whose estimate changes notably."""
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
    """What jobs with equal expected run times have in common: project, user, name, program and shape.

    Numbers in a name (`run-12`, `lr-0.1`) and a program's options are ignored.
    """
    request, program = job.request, job.program
    return (
        request.project, job.user, program.kind, _NUMBER.sub("#", job.name), _what_runs(program.command),
        request.shape, request.workers, request.groups,
    )  # fmt: skip


def _likenesses(job: Job) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    """What similar jobs have in common, the most specific first: for jobs that run the same program, and for others."""
    request = job.request
    alike = likeness(job)
    return (
        ((alike, request.gpus, job.program.command), alike),
        ((request.project, job.user, request.gpus), (request.project, request.gpus)),
    )


def _what_runs(command: tuple[str, ...]) -> tuple[str, ...]:
    """The program and its first file or word: `python train.py`."""
    words = [word for word in command if not word.startswith("-")][:2]
    return tuple([basename(word.rstrip("/")) for word in words])


def _ran(job: Job) -> tuple[float, GpuType | None] | None:
    """The run time of a job that has succeeded (of all attempts if it saved checkpoints, else of the last one), and the
    type of its GPUs if they are of one type."""
    if job.state is not JobState.SUCCEEDED:
        return None
    attempts = job.attempts if job.checkpointed is not None else job.attempts[-1:]
    spans = [a.ended - a.started for a in attempts if a.started is not None and a.ended is not None]
    types = {attempt.gpu_type for attempt in attempts}
    return (max(0.0, sum(spans)), types.pop() if len(types) == 1 else None) if spans else None
