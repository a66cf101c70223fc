"""The preemptible running jobs of one project, in the order in which they become victims.

The work that a stop loses grows with time. Among jobs that hold the same amount, however, the one that saved its state
last always loses least. Jobs are therefore kept sorted by priority and amount, and merged when they are compared.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator

from scheduler.model import Milli, WorkloadId
from scheduler.policy.workloads import WorkloadState

Entry = tuple[float, float, WorkloadId, WorkloadState]
"""When it saved its state and when it started, both negated; its name."""

Ranked = tuple[float, float, float, WorkloadId, WorkloadState]
"""The work that a stop would lose, and the entry."""


class Candidates:
    """By priority, then by amount."""

    __slots__ = ("classes", "elastic", "ranked")

    def __init__(self) -> None:
        self.classes: dict[int, dict[Milli, list[Entry]]] = {}
        self.elastic: dict[WorkloadId, WorkloadState] = {}
        self.ranked: dict[int, _Ranked] = {}

    def add(self, job: WorkloadState) -> None:
        self.ranked.pop(job.priority, None)
        amounts = self.classes.setdefault(job.priority, {})
        insort(amounts.setdefault(job.amount, []), _entry(job))
        if len(job.placement) > job.request.gang_size:
            self.elastic[job.id] = job

    def remove(self, job: WorkloadState) -> None:
        self.ranked.pop(job.priority, None)
        amounts = self.classes[job.priority]
        entries = amounts[job.amount]
        del entries[bisect_left(entries, _entry(job))]
        if not entries:
            del amounts[job.amount]
            if not amounts:
                del self.classes[job.priority]
        self.elastic.pop(job.id, None)

    def __bool__(self) -> bool:
        return bool(self.classes)

    def below(self, priority: int | None) -> Iterator[int]:
        """The priorities below `priority` (`None`: all), the lowest first."""
        return iter(sorted(p for p in self.classes if priority is None or p < priority))

    def by_loss(self, priority: int, now: float) -> Iterator[Ranked]:
        """The jobs of one priority with the work that each would lose, the least first, then the younger."""
        ranked = self.ranked.get(priority)
        if ranked is None or ranked.now != now:
            merged = [_losses(list(entries), amount, now) for amount, entries in self.classes.get(priority, {}).items()]
            lost = merged[0] if len(merged) == 1 else heapq.merge(*merged)
            ranked = self.ranked[priority] = _Ranked(now, lost)
        return iter(ranked)


class _Ranked:
    """The jobs of one priority by the work that they lose, sorted as far as somebody has looked."""

    __slots__ = ("_found", "_rest", "now")

    def __init__(self, now: float, losses: Iterator[Ranked]) -> None:
        self.now = now
        self._found: list[Ranked] = []
        self._rest = losses

    def __iter__(self) -> Iterator[Ranked]:
        found = self._found
        yield from found
        at = len(found)
        while True:
            if at == len(found):
                entry = next(self._rest, None)
                if entry is None:
                    return
                found.append(entry)
            yield found[at]
            at += 1


def rank(job: WorkloadState) -> tuple[float, float, WorkloadId]:
    """The order of jobs that lose equally much: who saved its state last, then the younger."""
    saved, started = job.saved, job.workload.started
    return (
        -float("inf") if saved is None else -saved,
        -float("inf") if started is None else -started,
        job.id,
    )


def _entry(job: WorkloadState) -> Entry:
    return *rank(job), job


def _losses(entries: list[Entry], amount: Milli, now: float) -> Iterator[Ranked]:
    for entry in entries:
        loss = now + entry[0]
        yield (loss * amount if loss > 0 else 0.0), *entry
