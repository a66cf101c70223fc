"""Moving preemptible jobs together so that a newcomer fits: nobody is queued again, but each move costs a restart.

A room is cleared for one worker of the newcomer only if everybody in its way finds another place in the same plan.
Rooms with the most free GPUs are looked at, up to a bound, and the one that loses least work is tried first.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.model import WorkerPlacement
from scheduler.policy.needs import Need
from scheduler.policy.paper import Paper
from scheduler.policy.placement import Placer
from scheduler.policy.reservation import roomiest
from scheduler.policy.rooms import Room
from scheduler.policy.state import State
from scheduler.policy.terms import Cut, Losses, Terms
from scheduler.policy.topology import NODE
from scheduler.policy.victims import Claim
from scheduler.policy.work import Work, by_rank

ROOMS = 64
"""How many rooms are looked at for each worker."""

TRIALS = 8
"""In how many of them it is tried to place everybody again."""


class Moving(Terms):
    """Whoever may be preempted may be moved; nobody loses GPUs by it."""

    def classes(self) -> Iterator[Iterator[Cut]]:
        yield from ()

    def may_lose(self, cut: Cut, losses: Losses, straddling: bool) -> bool:
        return True

    def in_room(self, room: Room) -> list[Cut]:
        """Who might be moved out of a room, the least work lost first."""
        cuts = []
        for work in self.state.standing.get(room.index, {}).values():
            if work.account is None or not work.preemptible or not work.workload.running or work.moved:
                continue
            if self._unprotected(work):
                saved = work.saved
                loss = 0.0 if saved is None else max(0.0, self.now - saved) * work.amount
                cuts.append(Cut(work, loss, work.amount))
        cuts.sort(key=lambda cut: (cut.loss, cut.work.id))
        return cuts


def consolidate(state: State, placer: Placer, newcomer: Work, kept_from: int, now: float) -> Claim | None:
    """Places for the newcomer's gang, and who moves for it; None, and nothing done, where that can't be."""
    ask = newcomer.ask
    mask = ask.qualifies & ~kept_from
    if not ask.need.whole or state.rooms.free_gpus(mask, True) < ask.least:
        return None
    if ask.parts and ask.require == NODE:
        return None
    together = ask.gang if ask.require == NODE else 1
    domains = [mask]
    if ask.require is not None and ask.require != NODE:
        domains = [domain & mask for domain in placer.topology.domains(ask.require)]
    terms = Moving(state, newcomer, now)
    for domain in domains:
        mark, cuts, found = state.mark(), list[Cut](), dict[int, list[WorkerPlacement]]()
        for number, part in ask.largest_first:
            claim = Claim([], [])
            while len(claim.workers) < part.gang:
                if not _one_more(state, placer, terms, claim, part.need, domain & part.qualifies, together):
                    break
            else:
                cuts += claim.cuts
                found[number] = claim.workers
                continue
            state.undo(mark)
            break
        else:
            return Claim(by_rank(found), cuts)
    return None


def _one_more(
    state: State, placer: Placer, terms: Moving, claim: Claim, need: Need, mask: int, together: int
) -> bool:
    """A place for one more worker (or for all that must stand together)."""
    free = state.rooms.together(need, together, mask, True)
    if free is not None:
        claim.workers.extend([state.seat(free, need, True) for _ in range(together)])
        return True
    cleared = []
    for room in roomiest(state, mask, ROOMS):
        paper = Paper(room)
        for cut in terms.in_room(room):
            if paper.fits(need, together):
                break
            paper.take(cut, terms, False)
        if paper.fits(need, together):
            paper.drop_needless(need, together)
            cleared.append((paper.loss(), len(paper.cuts), room.index, paper))
    cleared.sort(key=lambda entry: entry[:3])
    for _, _, _, paper in cleared[:TRIALS]:
        mark = state.mark()
        cuts = paper.made()
        for cut in cuts:
            state.leave(cut.work)
        workers = [state.seat(paper.room, need, True) for _ in range(together)]
        if all(settle_elsewhere(state, placer, cut.work) for cut in sorted(cuts, key=_largest_first)):
            claim.workers.extend(workers)
            claim.cuts.extend(cuts)
            return True
        state.undo(mark)
    return False


def settle_elsewhere(state: State, placer: Placer, work: Work, kept_from: int = 0) -> bool:
    """Place a work again that had to leave; whether that could be done."""
    if work.account is not None:
        kept_from |= work.account.capped(work.amount)
    workers: list[WorkerPlacement] | None = placer.place(
        work.ask, len(work.placement), False, ~kept_from if kept_from else None
    )
    if workers is None:
        return False
    state.move(work, workers)
    return True


def _largest_first(cut: Cut) -> tuple[int, str]:
    return -cut.amount, cut.work.id
