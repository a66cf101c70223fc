"""One scheduling cycle: sessions first, then jobs in the order of their projects, then elastic jobs grow.

Each job that is next gets, in this order: what is free now; what becomes free as others leave; what it may take back
from other projects or from less important jobs of its own. If none of that gives it a place, its line is closed for
this cycle with the reason.
"""

from __future__ import annotations

from scheduler.model import Milli, WorkerPlacement
from scheduler.policy import reasons
from scheduler.policy.accounts import Account
from scheduler.policy.fairshare import share_out
from scheduler.policy.intake import Intake, take_in
from scheduler.policy.placement import Placer
from scheduler.policy.queues import Line, Order, Queue
from scheduler.policy.reasons import Blocked
from scheduler.policy.sessions import seat_sessions
from scheduler.policy.types import Action, Decision, Plan, ProjectFigures, Snapshot
from scheduler.policy.victims import Claim, Hunt, Preemption, Reclaim
from scheduler.policy.work import Ask, Work

STALENESS = 60.0
"""How long a gang may run below its minimum, in seconds."""

LOOKS = 1_000_000
"""How many rooms all searches for victims of one cycle may look at."""


def decide(snapshot: Snapshot) -> Plan:
    """The plan for a snapshot. The same snapshot gives the same plan."""
    return Cycle(snapshot).plan()


class Cycle:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.now = snapshot.now
        self.settings = snapshot.pool.settings
        self.intake: Intake = take_in(snapshot)
        self.state = self.intake.state
        self.placer = Placer(self.state.rooms, self.intake.topology)
        self.blocked: dict[str, Blocked] = {}
        self.stopped: dict[str, str] = {}
        self.after: dict[str, tuple[str, ...]] = {}
        self.again_at: float | None = None
        self._in_vain: dict[tuple[object, ...], int] = {}

    def plan(self) -> Plan:
        self._stop_the_stale()
        self.blocked.update(seat_sessions(self.intake, self.placer, self.snapshot.pool))
        for work in self.intake.sessions_waiting:
            self._note_after(work)
        tops = [account for account in self.intake.accounts.values() if account.parent is None]
        share_out(tops, self.intake.capacity, self.settings.time_aware)
        self._start(tops)
        self._grow(tops)
        return Plan(self._decisions(), self._figures(), self.again_at)

    # -- who can't go on ----------------------------------------------------------------------------------

    def _stop_the_stale(self) -> None:
        """Stop gangs that lost their nodes, or have been below their minimum for too long."""
        strays = {work.id for work in self.intake.strays}
        for work in self.intake.running:
            if work.leaves or len(work.placement) >= work.ask.gang:
                continue
            since = work.workload.started
            stale = since is None or self.now > since + STALENESS
            if work.id in strays or (work.placement and stale):
                self.state.leave(work)
                self.stopped[work.id] = (
                    f"Runs {len(work.placement)} of at least {work.ask.gang} workers, so it is queued again."
                )
            elif since is not None:
                self._again(since + STALENESS)

    def _again(self, at: float) -> None:
        if at > self.now:
            self.again_at = at if self.again_at is None else min(self.again_at, at)

    # -- jobs ---------------------------------------------------------------------------------------------

    def _start(self, tops: list[Account]) -> None:
        queues = {
            account.name: Queue(account, [Line(ask, ask.least, works) for ask, works in lines.items()])
            for account, lines in self.intake.waiting.items()
        }
        order = Order(tops, queues)
        while (queue := order.next()) is not None:
            line = queue.next
            assert line is not None
            blocked = self._try(line.first, queue.account, order)
            if blocked is None:
                queue.advance()
            else:
                for work in line.works[line.at :]:
                    self.blocked[work.id] = blocked
                queue.close()
            order.changed(queue.account)

    def _try(self, work: Work, account: Account, order: Order) -> Blocked | None:
        """Start a job; returns what it waits for where that can't be."""
        ask = work.ask
        blocked = self._refused(ask, account)
        if blocked is None:
            workers = self._place(ask, ask.gang)
            if workers is not None:
                self.state.settle(work, workers)
                self._note_after(work)
                return None
        claim = self._take_back(work, account, limited=blocked is not None)
        if claim is None:
            return blocked or self._why(ask, account)
        self.state.settle(work, claim.workers)
        self._note_after(work)
        for victim in claim.victims:
            assert victim.account is not None
            kind = (
                "a more important job of its project"
                if victim.account is account
                else f"project {account.name}"
            )
            self.stopped[victim.id] = f"Its GPUs go to {work.id}: {kind} is due them. It is queued again."
            order.changed(victim.account)
        return None

    def _refused(self, ask: Ask, account: Account) -> Blocked | None:
        """Limits, and for what can't be preempted guarantees, down the whole path."""
        full = account.over_limit(ask.least)
        if full is not None:
            return reasons.at_limit(full, ask.least)
        if not ask.preemptible:
            full = account.over_guarantee(ask.least)
            if full is not None:
                return reasons.outside_guarantee(full, ask.least)
        return None

    def _place(self, ask: Ask, count: int) -> list[WorkerPlacement] | None:
        """Places for `count` workers: now, or once those are gone who leave. What failed is not tried again."""
        if not ask.qualifies:
            return None
        name = (ask.need, ask.masks, ask.require, ask.prefer, count)
        releases = self.state.rooms.releases
        if self._in_vain.get(name) == releases:
            return None
        workers = self.placer.place(ask, count, False) or self.placer.place(ask, count, True)
        if workers is None:
            self._in_vain[name] = self.state.rooms.releases
        return workers

    def _take_back(self, work: Work, account: Account, *, limited: bool) -> Claim | None:
        ask = work.ask
        wait_until = work.workload.submitted + self.settings.preemption_delay
        if wait_until > self.now:
            self._again(wait_until)
            return None
        claim = None
        if not limited:
            terms = Reclaim(work, self.now, ask.least, to_fair_share=self.settings.reclaim == "fair_share")
            claim = Hunt(self.state, self.placer, terms, LOOKS).search(ask.gang, ())
        if claim is None:
            claim = Hunt(self.state, self.placer, Preemption(work, self.now), LOOKS).search(ask.gang, ())
        return claim

    def _note_after(self, work: Work) -> None:
        after = self.state.in_the_way(work.placement)
        if work.account is not None:
            after.update(self.state.over_limit_until(work.account))
        if after:
            self.after[work.id] = tuple(sorted(after))

    def _grow(self, tops: list[Account]) -> None:
        """Elastic jobs get one worker after another of what nobody else could use."""
        lines: dict[Account, list[Line]] = {}
        for work in self.intake.works.values():
            missing = work.ask.workers - len(work.placement)
            if work.account is not None and work.placement and not work.leaves and missing > 0:
                grow = Line(work.ask, work.ask.each, [work] * missing)
                lines.setdefault(work.account, []).append(grow)
        queues = {account.name: Queue(account, more) for account, more in lines.items()}
        order = Order(tops, queues)
        while (queue := order.next()) is not None:
            line = queue.next
            assert line is not None
            workers = self._place_one_more(line.first, queue.account)
            if workers is None:
                queue.close()
            else:
                self.state.settle(line.first, workers)
                queue.advance()
            order.changed(queue.account)

    def _place_one_more(self, work: Work, account: Account) -> list[WorkerPlacement] | None:
        ask = work.ask
        if account.over_limit(ask.each) or (not ask.preemptible and account.over_guarantee(ask.each)):
            return None
        if work.id in self.after:
            return None
        return self.placer.place(ask, 1, False, self.placer.beside(ask, work.placement))

    # -- why ----------------------------------------------------------------------------------------------

    def _why(self, ask: Ask, account: Account) -> Blocked:
        if not ask.qualifies:
            if ask.request.gpu_types and not self._has_type(ask.request.gpu_types):
                return reasons.no_such_type(ask, anywhere=False)
            return reasons.never_fits(ask)
        if ask.require is not None and self._fits_without_rule(ask):
            return reasons.no_domain(ask, ask.require)
        free = self.placer.free(ask.qualifies)
        if ask.request.gpu_types and self.placer.free(self.intake.train) >= ask.least > free:
            return reasons.no_such_type(ask, anywhere=True)
        if account.held + ask.least > account.share:
            return reasons.above_share(account, ask)
        return reasons.no_room(ask, free)

    def _has_type(self, types: tuple[str, ...]) -> bool:
        return any(node.gpu_type in types for node in self.snapshot.nodes)

    def _fits_without_rule(self, ask: Ask) -> bool:
        return self.placer.bound(ask.need, ask.qualifies, True, ask.gang) >= ask.gang

    # -- the plan -----------------------------------------------------------------------------------------

    def _decisions(self) -> dict[str, Decision]:
        positions = self._positions()
        decisions = {}
        for workload in self.snapshot.workloads:
            work = self.intake.works[workload.id]
            decisions[work.id] = self._decision(work, positions)
        return decisions

    def _positions(self) -> dict[str, int]:
        """The place of each job that still waits in its project's queue, from 1."""
        positions = {}
        for lines in self.intake.waiting.values():
            waiting = [work for works in lines.values() for work in works if not work.placement]
            waiting.sort(key=lambda work: work.urgency)
            positions.update({work.id: position for position, work in enumerate(waiting, start=1)})
        return positions

    def _decision(self, work: Work, positions: dict[str, int]) -> Decision:
        if work.workload.running:
            if work.id in self.stopped:
                return Decision(Action.STOP, self.stopped[work.id])
            if work.leaves:
                return Decision(Action.KEEP, "It is being stopped.")
            if len(work.placement) > len(work.workload.placement):
                more = len(work.placement) - len(work.workload.placement)
                return Decision(
                    Action.GROW, f"Grows by {more} to {len(work.placement)} workers.", work.placement
                )
            return Decision(Action.KEEP, "", work.workload.placement)
        if work.placement or (work.ask.gang == 0):
            after = self.after.get(work.id, ())
            reason = (
                f"Starts when {_names(after)} {'has' if len(after) == 1 else 'have'} stopped."
                if after
                else ""
            )
            return Decision(Action.START, reason, work.placement, after)
        blocked = self.blocked.get(work.id) or reasons.homeless(work.workload.request.project)
        return Decision(
            Action.WAIT, blocked.sentence, blocked_by=blocked.details, position=positions.get(work.id)
        )

    def _figures(self) -> dict[str, ProjectFigures]:
        free = self.placer.free(self.intake.train)
        return {
            name: ProjectFigures(
                account.share, account.held, account.demand, max(0, min(free, _headroom(account)))
            )
            for name, account in self.intake.accounts.items()
        }


def _headroom(account: Account) -> Milli:
    return min(step.limit - step.held for step in account.path)


def _names(ids: tuple[str, ...]) -> str:
    if len(ids) <= 3:
        return " and ".join(ids) if len(ids) < 3 else f"{ids[0]}, {ids[1]} and {ids[2]}"
    return f"{ids[0]}, {ids[1]} and {len(ids) - 2} others"
