"""A place in time for the gang that is first in line, so that a stream of small jobs does not starve it.

The reservation says in which rooms the gang will fit, and when: by the ends of what runs there, where they are declared or
learned. Where they are not, the rooms are those that lack least and the time is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.model import ONE
from scheduler.policy.accounts import Account
from scheduler.policy.placement import Placer
from scheduler.policy.rooms import Room
from scheduler.policy.state import State
from scheduler.policy.topology import NODE
from scheduler.policy.work import Ask, Work

UNKNOWN = float("inf")

ROOMS = 256
"""How many rooms are looked at, those with most free GPUs first."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """`rooms` are kept for a work until `at` (`UNKNOWN`: nobody can say)."""

    work: Work
    at: float
    rooms: int


class Reservations:
    """The reservations of one cycle, up to `most`; `kept` names for whom something is kept that would do for others."""

    def __init__(self, state: State, placer: Placer, most: int, now: float) -> None:
        self.state = state
        self.placer = placer
        self.most = most
        self.now = now
        self.made: list[Reservation] = []
        self.kept: dict[tuple[str, Ask], str] = {}
        self.starts: dict[str, float] = {}
        self._vain: dict[int, int] = {}

    def open_to(self, account: Account) -> bool:
        """Whether the first in line of this project may have one."""
        return len(self.made) < self.most and account.held <= account.due

    def consider(self, work: Work, account: Account) -> None:
        """Reserve for the first in line that fits nowhere although its project is due."""
        ask = work.ask
        if not self.open_to(account) or ask.least > account.due or not ask.qualifies:
            return
        if (
            any(reservation.work is work for reservation in self.made)
            or self._vain.get(ask.kind) == self.state.gains
        ):
            return
        reservation = reserve(self.state, self.placer, work, self.now)
        if reservation is not None:
            self.made.append(reservation)
            if reservation.at != UNKNOWN:
                self.starts[work.id] = reservation.at
        else:
            self._vain[ask.kind] = self.state.gains

    def kept_from(self, work: Work, account: Account) -> int:
        """The rooms that are reserved for others and that this job would still hold when their time has come."""
        rooms = 0
        for reservation in self.made:
            if reservation.work is not work and not self._makes_way(work, account, reservation):
                rooms |= reservation.rooms
        return rooms

    def _makes_way(self, work: Work, account: Account, reservation: Reservation) -> bool:
        """Whether a job ends in time, may be stopped for the other without loss, or has a guarantee to its place."""
        ask, runtime = work.ask, work.workload.request.expected_runtime
        if runtime is not None and self.now + runtime <= reservation.at != UNKNOWN:
            return True
        if account.held + ask.least <= account.guarantee and account is not reservation.work.account:
            return True
        if not ask.preemptible or work.workload.request.min_runtime:
            return False
        if account is reservation.work.account:
            return ask.priority < reservation.work.priority
        return account.held + ask.least > account.due

    def note(self, ask: Ask, account: Account, kept_from: int) -> None:
        """A job did not fit: remember for whom that is kept which it would fit in."""
        if not kept_from:
            return
        mark = self.state.mark()
        if self.placer.place(ask, ask.gang, False) is not None:
            self.kept[account.name, ask] = next(r.work.id for r in self.made if r.rooms & kept_from)
        self.state.undo(mark)


def reserve(state: State, placer: Placer, work: Work, now: float) -> Reservation | None:
    """The earliest time at which the gang fits, and where."""
    ask = work.ask
    if not ask.need.whole or ask.least <= ONE:
        return None  # one GPU, or a share of one, is found soon enough
    if ask.require is None or ask.require == NODE:
        domains: Iterable[int] = (ask.qualifies,)
    else:
        domains = [
            mask for domain in placer.topology.domains(ask.require) if (mask := domain & ask.qualifies)
        ]
    found = [entry for domain in domains if (entry := _in_domain(state, ask, domain, now)) is not None]
    if not found:
        return None
    at, _, rooms = min(found)
    return Reservation(work, at, rooms)


def _in_domain(state: State, ask: Ask, mask: int, now: float) -> tuple[float, int, int] | None:
    """When and in which rooms of `mask` the gang fits; before equal times the number of GPUs that are missing decides."""
    together = ask.gang if ask.require == NODE else 1
    count = 1 if ask.require == NODE else ask.gang
    if ask.parts:  # about as many of its largest workers: a time is an estimate, and so are the rooms
        together = -(-ask.least // ask.each) if ask.require == NODE else 1
        count = 1 if ask.require == NODE else -(-ask.least // ask.each)
    places: list[tuple[float, int, int]] = []
    for room in roomiest(state, mask, ROOMS):
        places.extend(_times(state, room, ask, together, count, now))
    if len(places) < count:
        return None
    places.sort()
    chosen = places[:count]
    rooms = 0
    for _, _, index in chosen:
        rooms |= 1 << index
    return chosen[-1][0], sum(missing for _, missing, _ in chosen), rooms


def roomiest(state: State, mask: int, most: int) -> list[Room]:
    """The rooms of `mask` with the most free GPUs, up to a bound."""
    buckets = state.rooms.buckets[True]
    found: list[Room] = []
    for key in sorted(buckets, reverse=True):
        for room in state.rooms.each(buckets[key] & mask):
            found.append(room)
            if len(found) == most:
                return found
    return found


def _times(
    state: State, room: Room, ask: Ask, together: int, most: int, now: float
) -> list[tuple[float, int, int]]:
    """For each place that the room will have for the gang: when, how many GPUs are missing for it now, and the room."""
    need = ask.need
    free, cpus, memory = room.keys[True][0], room.cpus, room.memory
    whole, least_cpus, least_memory = need.whole * together, need.cpus * together, need.memory * together
    ends = sorted([(end_of(work, now), id) for id, work in state.standing.get(room.index, {}).items()])
    times: list[tuple[float, int, int]] = []
    at, before = now, free
    while True:
        while free >= whole and cpus >= least_cpus and memory >= least_memory and len(times) < most:
            times.append((at, max(0, whole * (len(times) + 1) - before), room.index))
            free, cpus, memory = free - whole, cpus - least_cpus, memory - least_memory
        if not ends or len(times) == most:
            return times
        at, id = ends.pop(0)
        leaving = state.standing[room.index][id]
        for worker, other in leaving.standing:
            if worker.node == room.name:
                cpus, memory = cpus + other.cpus, memory + other.memory
                free += len(worker.gpus) if not other.partial else 0


def end_of(work: Work, now: float) -> float:
    """When a running work is expected to end."""
    started, runtime = work.workload.started, work.workload.request.expected_runtime
    if runtime is None:
        return UNKNOWN
    return max(now, (now if started is None else started) + runtime)
