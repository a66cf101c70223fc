"""How long jobs run: what their owners declare, what earlier jobs like them took, or the longest that they may.

Pure and in memory: it is rebuilt from the latest jobs of the store at start. It is an estimate and nothing more: nobody is
stopped because of it. What must hold: the same jobs in the same order give the same estimates, and the memory is bounded.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePosixPath
from statistics import median

from scheduler.model import Job, JobState, Workload

RECENT = 10
"""So many of the latest jobs of a kind are remembered …"""

KINDS = 5_000
"""… of so many kinds; those that ended longest ago are forgotten."""

REMEMBERED = 1_000
"""So many of the latest jobs of the store are learned from at start."""

NOTABLE = 0.2
"""By what part an estimate must change for those that wait to be expected anew."""

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

    took: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    told: float = math.inf


class RunTimes:
    """What ended jobs took, and which unfinished ones are like them."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self._unfinished: dict[Hashable, dict[str, None]] = {}

    def estimate(self, job: Job) -> Estimate | None:
        """The owner's word before what was learned before the longest run time, which bounds them all."""
        longest = job.program.max_runtime
        declared = job.request.expected_runtime
        if declared is not None:
            found = Estimate(declared, Source.DECLARED)
        elif kind := self._kinds.get(likeness(job)):
            found = Estimate(median(kind.took), Source.LEARNED)
        else:
            return None if longest is None else Estimate(longest, Source.LIMIT)
        return found if longest is None else replace(found, seconds=min(found.seconds, longest))

    def workload(self, job: Job) -> Workload:
        """What the policy sees of a job, with the time that it is expected to run."""
        workload, estimate = job.workload(), self.estimate(job)
        if estimate is None:
            return workload
        return replace(workload, request=replace(workload.request, expected_runtime=estimate.seconds))

    def note(self, job: Job) -> None:
        """A job is new, or has changed."""
        kind = likeness(job)
        if not job.state.final:
            self._unfinished.setdefault(kind, {})[job.id] = None
        elif kind in self._unfinished:
            self._unfinished[kind].pop(job.id, None)
            if not self._unfinished[kind]:
                del self._unfinished[kind]

    def learn(self, job: Job) -> list[str]:
        """Learn from a job that has ended; the unfinished jobs that are now expected to run notably differently."""
        ran = _ran(job)
        if ran is None:
            return []
        likely = likeness(job)
        kind = self._kinds.setdefault(likely, _Kind())
        kind.took.append(ran)
        self._kinds.move_to_end(likely)
        if len(self._kinds) > KINDS:
            self._kinds.popitem(last=False)
        expected = median(kind.took)
        if abs(expected - kind.told) <= NOTABLE * kind.told < math.inf:
            return []
        kind.told = expected
        return list(self._unfinished.get(likely, ()))


def likeness(job: Job) -> Hashable:
    """What jobs have in common that are expected to run equally long: project, user, name and program, and their shape.

    Numbers in a name count nothing (`run-12`, `lr-0.1`), nor do a program's options.
    """
    request, program = job.request, job.program
    return (
        request.project, job.user, program.kind, _NUMBER.sub("#", job.name), _what_runs(program.command),
        request.shape, request.workers, request.groups,
    )  # fmt: skip


def _what_runs(command: tuple[str, ...]) -> tuple[str, ...]:
    """The program, and the first file or word that it is given: `python train.py`."""
    words = [word for word in command if not word.startswith("-")][:2]
    return tuple([PurePosixPath(word).name for word in words])


def _ran(job: Job) -> float | None:
    """How long a job took that has succeeded: all its attempts where it saved its state between them, else the last."""
    if job.state is not JobState.SUCCEEDED:
        return None
    attempts = job.attempts if job.checkpointed is not None else job.attempts[-1:]
    spans = [a.ended - a.started for a in attempts if a.started is not None and a.ended is not None]
    return max(0.0, sum(spans)) if spans else None
