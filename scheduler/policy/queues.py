"""Who is next: the queue of each project, and the order of the projects.

Jobs that ask for the same stand in one line and are judged once: when the first of a line can't start, none of it can,
and the line is closed for this cycle. The order of the projects is asked again after every placement, and only along
the path where something changed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count

from scheduler.model import Milli
from scheduler.policy.accounts import Account
from scheduler.policy.work import Ask, Work

UrgencyKey = tuple[int, float, str]
OrderKey = tuple[bool, bool, int, float, float, Milli, float]


class Line:
    """Jobs of one project that ask for the same, the first in line first; `at` is the next, `asked` what it takes.

    Who has a place already is passed over, unless the line is for jobs that `grow`.
    """

    __slots__ = ("ask", "asked", "at", "grow", "works")

    def __init__(self, ask: Ask, asked: Milli, works: list[Work], grow: bool = False) -> None:
        self.ask = ask
        self.asked = asked
        self.works = works
        self.grow = grow
        self.at = -1
        self.advance()

    @property
    def first(self) -> Work:
        return self.works[self.at]

    @property
    def over(self) -> bool:
        return self.at >= len(self.works)

    def advance(self) -> None:
        self.at += 1
        while not self.grow and not self.over and self.works[self.at].placement:
            self.at += 1


class Queue:
    """The lines of one leaf project, as a heap by their first job."""

    __slots__ = ("account", "heap")

    def __init__(self, account: Account, lines: Iterable[Line]) -> None:
        self.account = account
        self.heap = [(line.first.urgency, number, line) for number, line in enumerate(lines)]
        heapq.heapify(self.heap)

    @property
    def next(self) -> Line | None:
        return self.heap[0][2] if self.heap else None

    def advance(self) -> None:
        """The first in line was placed."""
        _, number, line = self.heap[0]
        line.advance()
        if not line.over:
            heapq.heapreplace(self.heap, (line.first.urgency, number, line))
        else:
            heapq.heappop(self.heap)

    def close(self) -> None:
        """Nobody of this line can be placed."""
        heapq.heappop(self.heap)


class Order:
    """The projects that have jobs waiting, as a tree of heaps."""

    def __init__(self, queues: dict[str, Queue]) -> None:
        self.queues = queues
        steps = {step.name: step for queue in queues.values() for step in queue.account.path}
        self._heaps: dict[str | None, list[tuple[OrderKey, str, int, Account]]] = {
            name: [] for name in (None, *steps)
        }
        self._next: dict[str, Milli] = {}
        self._keys: dict[str, OrderKey | None] = dict.fromkeys(steps)
        self._pushed = count()
        for step in sorted(steps.values(), key=lambda step: -step.depth):
            self._push(step)

    def _push(self, account: Account) -> None:
        asked = self._asked(account)
        if asked is None:
            self._keys[account.name] = None
            return
        self._next[account.name] = asked
        key = order_key(account, asked)
        if key != self._keys.get(account.name):
            self._keys[account.name] = key
            heap = self._heaps[account.parent.name if account.parent else None]
            heapq.heappush(heap, (key, account.name, next(self._pushed), account))

    def _asked(self, account: Account) -> Milli | None:
        """What the next job of the account, or of the first of its children, asks for."""
        if account.children:
            first = self._first(account.name)
            return None if first is None else self._next[first.name]
        queue = self.queues.get(account.name)
        line = queue.next if queue is not None else None
        return None if line is None else line.asked

    def _first(self, name: str | None) -> Account | None:
        heap = self._heaps[name]
        while heap and self._keys[heap[0][1]] != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][3] if heap else None

    def next(self) -> Queue | None:
        """The queue whose next job is to be judged."""
        account = self._first(None)
        while account is not None and account.children:
            account = self._first(account.name)
        return None if account is None else self.queues[account.name]

    def changed(self, account: Account) -> None:
        """What the account holds or asks for next has changed."""
        for step in account.path:
            if step.name in self._keys:
                self._push(step)


def order_key(account: Account, asked: Milli) -> OrderKey:
    """The rule by which projects are compared, the first difference deciding."""
    held, due = account.held, account.due
    after = held + asked
    return (
        held > account.share,
        after > account.guarantee,
        -account.priority,
        after / due if due else float("inf"),
        held / due if due else float("inf"),
        due,
        account.created,
    )
