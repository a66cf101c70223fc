"""The running jobs of one project that may be preempted, kept in the order in which they would be victims.

The work that a stop loses grows with time, but among jobs that hold equally much the one that saved its state last
always loses least. So jobs are kept sorted within their priority and amount, and merged where they are compared.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator

from scheduler.model import Milli
from scheduler.policy.work import Work

Entry = tuple[float, float, str, Work]
"""When it saved its state and when it started, both negated; its name."""


class Candidates:
    """By priority, then by amount."""

    __slots__ = ("classes", "elastic")

    def __init__(self) -> None:
        self.classes: dict[int, dict[Milli, list[Entry]]] = {}
        self.elastic: dict[str, Work] = {}

    def add(self, work: Work) -> None:
        amounts = self.classes.setdefault(work.priority, {})
        insort(amounts.setdefault(work.amount, []), _entry(work))
        if len(work.placement) > work.request.gang_size:
            self.elastic[work.id] = work

    def remove(self, work: Work) -> None:
        amounts = self.classes[work.priority]
        entries = amounts[work.amount]
        del entries[bisect_left(entries, _entry(work))]
        if not entries:
            del amounts[work.amount]
            if not amounts:
                del self.classes[work.priority]
        self.elastic.pop(work.id, None)

    def __bool__(self) -> bool:
        return bool(self.classes)

    def below(self, priority: int | None) -> Iterator[int]:
        """The priorities (below one), the lowest first."""
        return iter(sorted(p for p in self.classes if priority is None or p < priority))

    def by_loss(self, priority: int, now: float) -> Iterator[tuple[float, Work]]:
        """The jobs of one priority with the work that each would lose, the least first, then the younger."""
        merged = [
            _losses(list(entries), amount, now) for amount, entries in self.classes.get(priority, {}).items()
        ]
        lost = merged[0] if len(merged) == 1 else heapq.merge(*merged)
        return ((loss, work) for loss, _, _, _, work in lost)


def _entry(work: Work) -> Entry:
    saved, started = work.saved, work.workload.started
    return (
        -float("inf") if saved is None else -saved,
        -float("inf") if started is None else -started,
        work.id,
        work,
    )


def _losses(
    entries: list[Entry], amount: Milli, now: float
) -> Iterator[tuple[float, float, float, str, Work]]:
    for entry in entries:
        loss = now + entry[0]
        yield (loss * amount if loss > 0 else 0.0), *entry
