"""Whose GPUs are taken back so that a newcomer can start, and that it is as little work as can be.

Rooms are compared by what it would cost to make room for one worker in them; the cheapest is cleared, a worker stands
there, and so on until the gang stands. So a gang that needs whole machines clears whole machines. At the end whoever
is not in the way after all is put back. If the gang does not stand in the end, nothing has happened.

Candidates are ranked: those of the project furthest above its due first, then lower priority, least work lost,
younger. Whether a project may lose anything more is asked again before every further victim.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.model import ONE, Milli, WorkerPlacement
from scheduler.policy.accounts import Account, parting
from scheduler.policy.needs import Need
from scheduler.policy.placement import Placer
from scheduler.policy.rooms import Room
from scheduler.policy.state import State
from scheduler.policy.work import Work

Rank = tuple[bool, Milli, int, float, float, str]
Cost = tuple[bool, Milli, int, float, int, float, int]
Losses = dict[Account, Milli]
"""What projects lose in a trial that has not been carried out."""


@dataclass(slots=True)
class Claim:
    """The end of a search: where the newcomer stands and who leaves for it."""

    workers: list[WorkerPlacement]
    victims: list[Work]


class Terms:
    """From whom a newcomer may take, and how far."""

    def __init__(self, newcomer: Work, now: float) -> None:
        assert newcomer.account is not None
        self.newcomer = newcomer
        self.account: Account = newcomer.account
        self.now = now

    def line(self, victim: Account) -> tuple[tuple[Account, Milli], ...] | None:
        """The accounts of the victim's path with what each must be above to lose something; None: it loses nothing."""
        raise NotImplementedError

    def rank(self, work: Work, straddles: bool) -> Rank:
        account = work.account
        assert account is not None
        started = work.workload.started
        priority, loss = work.workload.request.priority, work.loss(self.now)
        return straddles, self.excess(account), priority, loss, -(started or 0.0), work.id

    def excess(self, account: Account) -> Milli:
        """How far the victim's project is above its due, negated."""
        return 0


class Preemption(Terms):
    """A more important job takes from less important ones of its own project."""

    def line(self, victim: Account) -> tuple[tuple[Account, Milli], ...] | None:
        return () if victim is self.account else None

    def may(self, work: Work) -> bool:
        return work.workload.request.priority < self.newcomer.workload.request.priority


class Reclaim(Terms):
    """A project takes back what it is due from those above theirs, or what it was guaranteed from all above that."""

    def __init__(self, newcomer: Work, now: float, asked: Milli, *, to_fair_share: bool) -> None:
        super().__init__(newcomer, now)
        self.asked = asked
        self.to_fair_share = to_fair_share and newcomer.preemptible
        self._lines: dict[Account, tuple[tuple[Account, Milli], ...] | None] = {}

    def line(self, victim: Account) -> tuple[tuple[Account, Milli], ...] | None:
        if victim not in self._lines:
            self._lines[victim] = self._line(victim)
        return self._lines[victim]

    def _line(self, victim: Account) -> tuple[tuple[Account, Milli], ...] | None:
        if victim is self.account:
            return None
        mine, theirs = parting(self.account, victim)
        steps = self.account.path[: self.account.depth - mine.depth + 1]
        below = tuple((a, a.guarantee) for a in victim.path[: victim.depth - theirs.depth])
        if all(step.held + self.asked <= step.guarantee for step in steps):
            return (*below, (theirs, theirs.guarantee))
        if self.to_fair_share and all(step.held + self.asked <= step.share for step in steps):
            return (*below, (theirs, theirs.due))
        return None

    def may(self, work: Work) -> bool:
        return True

    def excess(self, account: Account) -> Milli:
        _, theirs = parting(self.account, account)
        return theirs.due - theirs.held


class Hunt:
    """One search for victims. `rooms_left` bounds it: every look at a room counts one."""

    def __init__(self, state: State, placer: Placer, terms: Preemption | Reclaim, budget: int) -> None:
        self.state = state
        self.placer = placer
        self.terms = terms
        self.budget = budget

    def search(self, count: int, victims_of: Iterable[Account]) -> Claim | None:
        """Places for `count` workers of the newcomer, and whom that stops."""
        ask = self.terms.newcomer.ask
        need, mask = ask.need, ask.qualifies
        if ask.require is None or count == 1:
            return self._in(need, count, mask)
        if ask.require == "node":
            return self._in(need.times(count), 1, mask, need, count)
        for domain in self.placer.topology.domains(ask.require):
            claim = self._in(need, count, mask & domain)
            if claim is not None:
                return claim
        return None

    def _in(
        self, need: Need, count: int, mask: int, each: Need | None = None, times: int = 1
    ) -> Claim | None:
        state, rooms = self.state, self.state.rooms
        heap = [
            (cost, room.index)
            for room in rooms.each(mask)
            if (cost := self._cost(room, self._clear(room, need))) is not None
        ]
        heapq.heapify(heap)
        workers: list[WorkerPlacement] = []
        victims: list[Work] = []
        while heap and len(workers) < count * times:
            old, index = heapq.heappop(heap)
            room = rooms.rooms[index]
            chosen = self._clear(room, need)
            cost = self._cost(room, chosen)
            if cost is None or chosen is None:
                continue
            if cost > old:
                heapq.heappush(heap, (cost, index))
                continue
            for work in chosen:
                state.leave(work)
                victims.append(work)
            workers.extend([rooms.stand(room, each or need, True) for _ in range(times)])
            heapq.heappush(heap, (cost, index))
        if len(workers) < count * times:
            for worker in reversed(workers):
                rooms.vacate(worker, each or need)
            for work in reversed(victims):
                state.stay(work)
            return None
        return Claim(workers, self._put_back(victims))

    def _put_back(self, victims: list[Work]) -> list[Work]:
        kept: list[Work] = []
        for work in reversed(victims):
            if self.state.can_stay(work):
                self.state.stay(work)
            else:
                kept.append(work)
        return kept[::-1]

    # -- one room -----------------------------------------------------------------------------------------

    def _clear(self, room: Room, need: Need) -> list[Work] | None:
        """Whom to stop, in order of rank, so that one worker fits into the room; None where it can't be."""
        if room.takes(need, True):
            return []
        vacancy = Vacancy(room)
        if not vacancy.could_ever(need):
            return None
        losses: Losses = {}
        chosen: list[Work] = []
        for straddling in (False, True):
            for work in self._candidates(room, straddling):
                if work in chosen or not self._may_lose(work, losses, straddling):
                    continue
                chosen.append(work)
                self._lose(work, losses)
                vacancy.without(work)
                if vacancy.takes(need):
                    return chosen
        return None

    def _candidates(self, room: Room, straddling: bool) -> list[Work]:
        terms = self.terms
        found = [
            work
            for work in self.state.standing[room.index].values()
            if work.preemptible
            and work.account is not None
            and not work.workload.stopping
            and work.workload.running
            and work.protected_until() <= terms.now
            and terms.line(work.account) is not None
            and terms.may(work)
        ]
        found.sort(key=lambda work: terms.rank(work, straddling))
        return found

    def _may_lose(self, work: Work, losses: Losses, straddling: bool) -> bool:
        assert work.account is not None
        lines = self.terms.line(work.account)
        if lines is None:
            return False
        for account, line in lines:
            held = account.held - losses.get(account, 0)
            if held <= line or (not straddling and held - work.amount < line):
                return False
        return True

    def _lose(self, work: Work, losses: Losses) -> None:
        assert work.account is not None
        for account in work.account.path:
            losses[account] = losses.get(account, 0) + work.amount

    def _cost(self, room: Room, chosen: list[Work] | None) -> Cost | None:
        """What clearing a room costs: by the worst of its victims, then by the work lost, and fewest."""
        if chosen is None:
            return None
        if not chosen:
            return (False, -(1 << 60), 0, 0.0, 0, 0.0, room.index)
        ranks = [self.terms.rank(work, self._straddles(work)) for work in chosen]
        worst = max(ranks)[:3]
        loss = sum(rank[3] for rank in ranks)
        return (*worst, loss, len(chosen), max(rank[4] for rank in ranks), room.index)

    def _straddles(self, work: Work) -> bool:
        assert work.account is not None
        return any(a.held - work.amount < line for a, line in self.terms.line(work.account) or ())


class Vacancy:
    """A room on paper: what would be free in it if some left."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.free = room.free(True)
        self.shares = dict(room.shares)
        self.cpus = room.cpus
        self.memory = room.memory

    def could_ever(self, need: Need) -> bool:
        return need.whole <= self.room.node.gpus

    def without(self, work: Work) -> None:
        for worker in work.placement:
            if worker.node != self.room.node.name:
                continue
            self.cpus += work.need.cpus
            self.memory += work.need.memory
            for gpu in worker.gpus:
                if gpu in self.shares:
                    self.shares[gpu] -= worker.share
                    if self.shares[gpu] > 0:
                        continue
                    del self.shares[gpu]
                self.free |= 1 << gpu

    def takes(self, need: Need) -> bool:
        if need.cpus > self.cpus or need.memory > self.memory:
            return False
        if need.partial:
            share = need.share_on(self.room.node)
            return share <= ONE and (bool(self.free) or any(share <= ONE - u for u in self.shares.values()))
        return self.free.bit_count() >= need.whole
