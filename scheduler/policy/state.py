"""The pool while a plan is made of it: rooms, accounts and who stands where, changed in steps that can be undone.

`leave` and `stay`, `settle` and `unsettle` are inverses of each other. A trial is a list of such steps; giving it up is
doing their inverses backwards.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import WorkerPlacement
from scheduler.policy.accounts import Account
from scheduler.policy.needs import held_by
from scheduler.policy.rooms import Room, Rooms
from scheduler.policy.work import Work


class State:
    """`standing` has the running works of each room, `leaving` those on their way out, in the order they came."""

    def __init__(self, rooms: Rooms) -> None:
        self.rooms = rooms
        self.standing: list[dict[str, Work]] = [{} for _ in rooms.rooms]
        self.leaving: list[dict[str, Work]] = [{} for _ in rooms.rooms]

    def _rooms_of(self, placement: Iterable[WorkerPlacement]) -> list[Room]:
        by_name = self.rooms.by_name
        return [by_name[name] for name in dict.fromkeys([worker.node for worker in placement])]

    def load(self, work: Work) -> None:
        """Put a running workload where the snapshot says that it stands."""
        if work.leaves:
            for worker in work.placement:
                self.rooms.hold(worker, work.need)
            if work.account is not None:
                work.account.add_leaving(work.amount)
        else:
            for worker in work.placement:
                self.rooms.occupy(worker, work.need)
            self._charge(work, work.amount)
        index = self.leaving if work.leaves else self.standing
        for room in self._rooms_of(work.placement):
            index[room.index][work.id] = work

    def settle(self, work: Work, workers: list[WorkerPlacement]) -> None:
        """A work that waited has got places (which are occupied already)."""
        work.placement = (*work.placement, *workers)
        amount = held_by(tuple(workers))
        work.amount += amount
        self._charge(work, amount)

    def leave(self, work: Work) -> None:
        """A running work gives back what it holds; until it is gone it is in the way."""
        for worker in work.placement:
            self.rooms.vacate(worker, work.need)
            self.rooms.hold(worker, work.need)
        for room in self._rooms_of(work.placement):
            del self.standing[room.index][work.id]
            self.leaving[room.index][work.id] = work
        work.leaves = True
        self._charge(work, -work.amount)
        if work.account is not None:
            work.account.add_leaving(work.amount)

    def stay(self, work: Work) -> None:
        """The inverse of `leave`."""
        for worker in work.placement:
            self.rooms.unhold(worker, work.need)
            self.rooms.occupy(worker, work.need)
        for room in self._rooms_of(work.placement):
            del self.leaving[room.index][work.id]
            self.standing[room.index][work.id] = work
        work.leaves = False
        self._charge(work, work.amount)
        if work.account is not None:
            work.account.add_leaving(-work.amount)

    def can_stay(self, work: Work) -> bool:
        """Whether the places that a leaving work held are still there for it."""
        beside: dict[str, tuple[int, int]] = {}
        shares: dict[tuple[str, int], int] = {}
        for worker in work.placement:
            room = self.rooms.by_name[worker.node]
            for gpu in worker.gpus:
                share = shares[worker.node, gpu] = shares.get((worker.node, gpu), 0) + worker.share
                if room.share_free(gpu, True) < share:
                    return False
            cpus, memory = beside.get(worker.node, (0, 0))
            beside[worker.node] = (cpus + work.need.cpus, memory + work.need.memory)
        rooms = self.rooms.by_name
        return all(
            cpus <= rooms[name].cpus and memory <= rooms[name].memory
            for name, (cpus, memory) in beside.items()
        )

    def in_the_way(self, workers: Iterable[WorkerPlacement]) -> dict[str, Work]:
        """The leaving works that hold what these workers are to have."""
        found: dict[str, Work] = {}
        for worker in workers:
            room = self.rooms.by_name[worker.node]
            leaving = self.leaving[room.index]
            if not leaving:
                continue
            for other in leaving.values():
                held = [o for o in other.placement if o.node == worker.node]
                if any(_collide(o, worker, room) for o in held):
                    found[other.id] = other
            if room.cpus < room.leaving_cpus or room.memory < room.leaving_memory:
                found.update(leaving)
        return found

    def over_limit_until(self, account: Account) -> dict[str, Work]:
        """The leaving works whose end an account of this path must await, lest it holds more than its limit."""
        full = [step for step in account.path if step.leaving and step.held + step.leaving > step.limit]
        if not full:
            return {}
        found = {}
        for leaving in self.leaving:
            for work in leaving.values():
                if work.account is not None and any(step in work.account.path for step in full):
                    found[work.id] = work
        return found

    def _charge(self, work: Work, amount: int) -> None:
        if work.account is not None and amount:
            work.account.add(amount, not work.preemptible)


def _collide(one: WorkerPlacement, other: WorkerPlacement, room: Room) -> bool:
    """Whether two workers can't hold their GPUs at the same time."""
    return any(gpu in other.gpus and room.share_free(gpu, False) < 0 for gpu in one.gpus)
