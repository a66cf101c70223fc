"""What the policy knows of the pool, kept up to date: rooms, accounts, and the workloads sorted by what they do.

`put` and `forget` are all that ever changes it, each in time that does not grow with the pool, so that a plan after one
change costs little. What it holds depends on the workloads alone, not on the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import ONE, Environment, Milli, Node, Pool, Workload
from scheduler.policy.accounts import Account, Part, open_accounts
from scheduler.policy.asks import Asks
from scheduler.policy.rooms import Rooms
from scheduler.policy.state import State
from scheduler.policy.topology import Topology
from scheduler.policy.work import Ask, Work


class Intake:
    """The workloads of a pool. `homeless` jobs are of no project that takes jobs; `train` is the rooms for jobs."""

    def __init__(self, pool: Pool, nodes: Iterable[Node], workloads: Iterable[Workload] = ()) -> None:
        self.pool = pool
        rooms = Rooms(nodes)
        self.state = State(rooms)
        self.topology = Topology(rooms.all, pool.topology)
        self.accounts = open_accounts(pool.projects)
        for project in pool.projects:
            self.accounts[project.name].parts = tuple(
                Part(limit, sum([room.bit for room in rooms.all if limit.covers(room.node)]))
                for limit in project.limits
            )
        self.tops = [account for account in self.accounts.values() if account.parent is None]
        self.state.limited = any(project.limits for project in pool.projects)
        self.asks = Asks(pool, rooms)
        self.works: dict[str, Work] = {}
        self.waiting: dict[Account, dict[Ask, list[Work]]] = {}
        self.sessions: dict[str, Work] = {}
        self.elastic: dict[str, Work] = {}
        self.reduced: dict[str, Work] = {}
        self.claims: dict[str, Work] = {}
        self.homeless: dict[str, Work] = {}
        self._unsorted: dict[int, list[Work]] = {}
        self.capacity: Milli = 0
        self.train = 0
        for room in rooms.all:
            node = room.node
            if node.schedulable and self.asks.environment_of(node.node_pool) is Environment.TRAIN:
                self.capacity += node.gpus * ONE
                self.train |= room.bit
        for workload in workloads:
            self.put(workload)

    def put(self, workload: Workload) -> None:
        """A workload is new."""
        request = workload.request
        build = request.environment is Environment.BUILD
        account = None if build else self.accounts.get(request.project)
        work = self.works[workload.id] = Work(workload, account, self.asks.of(request))
        if build:
            self.sessions[work.id] = work
        if workload.running:
            self._stand(work)
        elif account is None or account.children:
            if not build:
                self.homeless[work.id] = work
        else:
            line = self.waiting.setdefault(account, {}).setdefault(work.ask, [])
            line.append(work)
            if len(line) > 1:
                self._unsorted[id(line)] = line
            if workload.placement:
                self.claims[work.id] = work
        _demand(work, 1)

    def forget(self, id: str) -> None:
        """A workload is gone (or never was)."""
        work = self.works.pop(id, None)
        if work is not None:
            self._forget(work)

    def _stand(self, work: Work) -> None:
        by_name = self.state.rooms.by_name
        known = tuple(
            [
                worker
                for worker in work.placement
                if (room := by_name.get(worker.node)) is not None
                and (not worker.gpus or max(worker.gpus) < room.node.gpus)
            ]
        )
        if len(known) < len(work.placement):
            work.stands_at(known)
        self.state.load(work)
        if work.account is not None:
            if len(work.placement) < work.ask.gang:
                self.reduced[work.id] = work
            if work.ask.workers > work.ask.gang:
                self.elastic[work.id] = work

    def _forget(self, work: Work) -> None:
        if work.workload.running:
            self.state.unload(work)
        elif work.account is not None and not work.account.children:
            lines = self.waiting[work.account]
            line = lines[work.ask]
            line.remove(work)
            if not line:
                del lines[work.ask]
                self._unsorted.pop(id(line), None)
                if not lines:
                    del self.waiting[work.account]
        for index in (self.sessions, self.elastic, self.reduced, self.claims, self.homeless):
            index.pop(work.id, None)
        _demand(work, -1)

    def sort(self) -> None:
        """Put every line in which somebody was added in order again."""
        for line in self._unsorted.values():
            line.sort(key=_by_urgency)
        self._unsorted.clear()


def _by_urgency(work: Work) -> tuple[int, float, str]:
    return work.urgency


def _demand(work: Work, sign: int) -> None:
    """What a job holds, how far it may grow, or what it asks for, counts as demand all the way up."""
    if work.account is None:
        return
    missing = max(0, work.ask.workers - len(work.placement))
    wanted = work.amount + missing * work.ask.each
    if work.ask.parts:
        wanted = max(work.amount, work.ask.least)
    for step in work.account.path:
        step.demand += sign * wanted
