"""The preemptible running jobs of one project, in the order in which they become victims.

The work that a stop loses grows with time. Among jobs that hold the same amount, however, the one that saved its state
last always loses least. Jobs are therefore kept sorted by priority and amount, and merged when they are compared.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Set

from scheduler.model import Milli, NodeName, WorkloadId
from scheduler.policy.nodecounts import NodeCounts
from scheduler.policy.nodes import NodeState
from scheduler.policy.workloads import WorkloadState

Entry = tuple[float, float, WorkloadId, WorkloadState]
"""When it saved its state and when it started, both negated; its name."""

Ranked = tuple[float, float, float, WorkloadId, WorkloadState]
"""The work that a stop would lose, and the entry."""


class Candidates:
    """By priority, then by amount."""

    __slots__ = ("_held", "_nodes", "classes", "elastic")

    def __init__(self, nodes: Mapping[NodeName, NodeState]) -> None:
        self._nodes = nodes
        self._held: dict[int, NodeCounts] = {}
        self.classes: dict[int, dict[Milli, list[Entry]]] = {}
        self.elastic: dict[WorkloadId, WorkloadState] = {}

    def add(self, job: WorkloadState) -> None:
        insort(self._list_of(job), _entry(job))

    def append(self, job: WorkloadState) -> None:
        """As `add`, if `sort` follows."""
        self._list_of(job).append(_entry(job))

    def sort(self) -> None:
        for amounts in self.classes.values():
            for entries in amounts.values():
                entries.sort()

    def _list_of(self, job: WorkloadState) -> list[Entry]:
        """The list to which a job is added; the rest counts it."""
        if len(job.placement) > job.request.gang_size:
            self.elastic[job.id] = job
        if self._held and (held := self._held.get(job.priority)) is not None:
            for worker in job.placement:
                held.increase(self._nodes[worker.node].bit, len(worker.gpus))
        return self.classes.setdefault(job.priority, {}).setdefault(job.amount, [])

    def remove(self, job: WorkloadState) -> None:
        amounts = self.classes[job.priority]
        entries = amounts[job.amount]
        del entries[bisect_left(entries, _entry(job))]
        if not entries:
            del amounts[job.amount]
            if not amounts:
                del self.classes[job.priority]
        self.elastic.pop(job.id, None)
        if self._held and (held := self._held.get(job.priority)) is not None:
            for worker in job.placement:
                held.decrease(self._nodes[worker.node].bit, len(worker.gpus))

    def __bool__(self) -> bool:
        return bool(self.classes)

    def below(self, priority: int | None) -> Iterator[int]:
        """The priorities below `priority` (`None`: all), the lowest first."""
        return iter(sorted(p for p in self.classes if priority is None or p < priority))

    def held(self, priority: int) -> NodeCounts:
        """How many GPUs the jobs of one priority hold on each node."""
        held = self._held.get(priority)
        if held is None:
            counts = dict[int, int]()
            for entries in self.classes.get(priority, {}).values():
                for *_, job in entries:
                    for worker in job.placement:
                        place = self._nodes[worker.node].index
                        counts[place] = counts.get(place, 0) + len(worker.gpus)
            held = self._held[priority] = NodeCounts.of(counts)
        return held

    def by_loss(self, priority: int, now: float, nodes: Set[NodeName] | None = None) -> Iterator[Ranked]:
        """The jobs of one priority (on some nodes) with the work that each would lose, the least first, then the
        younger."""
        amounts = self.classes.get(priority, {})
        found = [self._losses(amount, list(entries), now, nodes) for amount, entries in amounts.items()]
        return found[0] if len(found) == 1 else heapq.merge(*found)

    def _losses(self, amount: Milli, entries: list[Entry], now: float, nodes: Set[NodeName] | None) -> Iterator[Ranked]:
        for saved, started, id, job in entries:
            if nodes is not None:
                for worker in job.placement:
                    if worker.node in nodes:
                        break
                else:
                    continue
            loss = now + saved
            yield (loss * amount if loss > 0 else 0.0), saved, started, id, job


def rank(job: WorkloadState) -> tuple[float, float, WorkloadId]:
    """The order of jobs that lose equally much: who saved its state last, then the younger."""
    saved, started = job.saved, job.workload.started
    return (
        -float("inf") if saved is None else -saved,
        -float("inf") if started is None else -started,
        job.id,
    )


def ranked(job: WorkloadState, now: float) -> Ranked:
    """A job among those of its priority."""
    entry = _entry(job)
    loss = now + entry[0]
    return (loss * job.amount if loss > 0 else 0.0), *entry


def _entry(job: WorkloadState) -> Entry:
    return *rank(job), job
