"""How a newcomer that fits nowhere gets a place: others move for it, or are stopped for it, whichever loses less work.

It takes from other projects what its own is due (reclaim), or else from less important jobs of its own (preemption).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from scheduler.model import ReclaimUpTo, Settings, SurplusOrder, WorkerPlacement, WorkloadId
from scheduler.policy.consolidation import Consolidation
from scheduler.policy.eligibility import EligibilityRules, Preemption, Reclaim
from scheduler.policy.evictions import Floor
from scheduler.policy.levels import ServiceLevels
from scheduler.policy.nodes import LATER
from scheduler.policy.placement import Placer
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState
from scheduler.policy.reclaimbeside import ReclaimBeside
from scheduler.policy.reservation import Reservations
from scheduler.policy.service import Pausing
from scheduler.policy.sets import NO_NODES, NodeSet
from scheduler.policy.victims import NOTHING_OVER, Budget, SearchResult, VictimSearch, over_limits
from scheduler.policy.wakeup import Wakeup
from scheduler.policy.workloads import RequestClass, WorkloadState

Moved = list[tuple[WorkloadState, tuple[WorkerPlacement, ...]]]
"""Jobs with the places to which they were moved."""


class Preemptor:
    """The searches of one cycle. What failed is not tried again until somebody has left."""

    def __init__(
        self,
        state: PoolState,
        placer: Placer,
        reservations: Reservations,
        settings: Settings,
        budget: Budget,
        wakeup: Wakeup,
        levels: ServiceLevels,
    ) -> None:
        self.state = state
        self.placer = placer
        self.reservations = reservations
        self.settings = settings
        self.budget = budget
        self.wakeup = wakeup
        self.moves = Consolidation(state, placer, reservations, wakeup.now)
        self.levels = levels
        self._highest: dict[tuple[ProjectState, int], tuple[int, int]] = {}
        self._no_moves: dict[tuple[int, NodeSet], int] = {}
        self._no_victims: dict[tuple[object, ...], int] = {}

    def cannot_consolidate_for(self, request: RequestClass) -> bool:
        """Whether it is known that moving others makes no place for such a job."""
        return self._no_moves.get((request.fit_class, NO_NODES)) == self.state.gains

    def least_important(self, project: ProjectState) -> float:
        """Jobs above this priority may find somebody to preempt in their project."""
        candidates = self.state.candidates.get(project)
        if not candidates:
            return float("inf")
        least = min(candidates.classes)
        return min([least, *[job.priority - 1 for job in candidates.elastic.values()]])

    def find(self, job: WorkloadState, project: ProjectState, limited: bool, kept_from: NodeSet) -> SearchResult | None:
        """Take from other projects, or from less important jobs of the same one."""
        request = job.request
        if not request.eligible or self._too_early(job):
            return None
        if limited or not self._may_move(job, kept_from):
            return self._stop_others(job, project, limited, kept_from)
        with self.state.trial() as trial:
            moves = self._consolidate(job, kept_from)
            if moves is not None and not self._may_stop_others(job, project):
                trial.commit()
                return moves
            moved = [] if moves is None else [(eviction.job, eviction.job.placement) for eviction in moves.evictions]
        if moves is None:
            return self._stop_others(job, project, limited, kept_from)
        with self.state.trial() as trial:
            result = self._stop_others(job, project, limited, kept_from, can_move=True)
            if result is not None and result.loss < moves.loss:
                trial.commit()
                return result
        self._move_again(job, moves, moved)
        return moves

    def _may_stop_others(self, job: WorkloadState, project: ProjectState) -> bool:
        """A quick look: False where nobody can be stopped for it."""
        return (
            bool(project.beside)
            or Reclaim(self.state, job, project, self.wakeup.now, up_to=self.settings.reclaim).finds_any()
            or job.request.priority > self.least_important(project)
            or self.may_pause(project, job)
        )

    def _move_again(self, job: WorkloadState, moves: SearchResult, moved: Moved) -> None:
        """Carry out moves that were found before and have been undone."""
        for other, _ in moved:
            self.state.release(other)
        taken = self.state.take_places(moves.workers, job.request)
        assert taken
        for other, placement in moved:
            taken = self.state.take_places(placement, other.request)
            assert taken
            self.state.move(other, placement)

    def find_worker(
        self, job: WorkloadState, project: ProjectState, mask: NodeSet, spared: Container[WorkloadId]
    ) -> SearchResult | None:
        """For one more worker of an elastic job: take from other projects what its own is guaranteed.

        Jobs that are `spared` (by id) are not stopped for it.
        """
        rules = Reclaim(self.state, job, project, self.wakeup.now, up_to=ReclaimUpTo.GUARANTEE)
        rules.asked, rules.spared = job.request.worker_amount, spared
        name = (job.request.fit_class, mask, project.parent, "worker")
        if not rules.possible() or self._no_victims.get(name) == self.state.gains or self._too_early(job):
            return None
        result = VictimSearch(self.state, self.placer, rules, self.budget).one_more(mask)
        self.wakeup.note(rules.protected_until)
        if result is None:
            self._no_victims[name] = self.state.gains
        return result

    def _too_early(self, job: WorkloadState) -> bool:
        """Whether it has not waited long enough to take GPUs from others."""
        delay, workload = self.settings.preemption_delay, job.workload
        since = workload.submitted if workload.preempted is None else workload.preempted
        if not delay or since + delay <= self.wakeup.now:
            return False
        self.wakeup.note(since + delay)
        return True

    def _may_move(self, job: WorkloadState, kept_from: NodeSet) -> bool:
        """Whether it is worth a try to move others together. What failed is not tried again."""
        request, gains = job.request, self.state.gains
        name, anywhere = (request.fit_class, kept_from), (request.fit_class, NO_NODES)
        if gains in (self._no_moves.get(name), self._no_moves.get(anywhere)):
            return False
        # Not only where the newcomer may stand: the others may go elsewhere.
        if self.state.nodes.left_over() < request.gang_amount:
            self._no_moves[anywhere] = gains
            return False
        return True

    def _consolidate(self, job: WorkloadState, kept_from: NodeSet) -> SearchResult | None:
        """Move others together."""
        result = self.moves.consolidate(job, kept_from)
        if result is None:
            self._no_moves[job.request.fit_class, kept_from] = self.state.gains
        return result

    def _stop_others(
        self, job: WorkloadState, project: ProjectState, limited: bool, kept_from: NodeSet, can_move: bool = False
    ) -> SearchResult | None:
        """Reclaim or, if that brings nothing, preempt. Where others `can_move` instead, that is better than to take a
        project below its floor."""
        result = self._reclaim_what_is_due(job, project, limited, kept_from, can_move)
        if result is None and job.request.priority > self.least_important(project):
            result = self._preempt(job, project, limited, kept_from)
        if result is None and self.may_pause(project, job):
            result = self._preempt(job, project, limited, kept_from, pausing=True)
        return result

    def may_pause(self, project: ProjectState, job: WorkloadState) -> bool:
        """Whether a job of the same project and priority runs on a higher service level."""
        candidates = self.state.candidates.get(project)
        if project.held is None or not candidates or job.priority not in candidates.classes:
            return False
        name, now = (project, job.priority), self.wakeup.now
        known = self._highest.get(name)
        if known is None or known[0] != self.state.gains:
            running = candidates.by_loss(job.priority, now)
            found = [self.levels.when_running(other.workload, now) for *_, other in running]
            for _, at in found:
                self.wakeup.note(at)
            known = self._highest[name] = self.state.gains, max([level for level, _ in found])
        return known[1] > job.level

    def _reclaim_what_is_due(
        self, job: WorkloadState, project: ProjectState, limited: bool, kept_from: NodeSet, can_move: bool
    ) -> SearchResult | None:
        """Take from other projects; where there are GPUs but too few CPUs or too little memory, first from those who
        hold these."""
        request = job.request
        within = _fullest(request, project) if limited else None
        if limited and (within is None or within is project or breaks_guarantee(request, project)):
            return None  # stopping others would not help
        now, up_to = self.wakeup.now, self.settings.reclaim
        levels = self.levels if self.settings.surplus is SurplusOrder.SERVED else None
        plain = Reclaim(self.state, job, project, now, up_to=up_to, within=within, levels=levels)
        if not project.beside or not any(request.gang_beside):
            return self._reclaim(plain, kept_from, can_move)
        beside = ReclaimBeside(self.state, job, project, now, up_to=up_to, within=within, gpus=False)
        if not request.gang_amount:
            return self._reclaim(beside, kept_from, can_move)
        first = self._reclaim(beside, kept_from, can_move) if self._has_gpus(request, kept_from) else None
        result = first or self._reclaim(plain, kept_from, can_move)
        if result is None and beside.possible():
            both = ReclaimBeside(self.state, job, project, now, up_to=up_to, within=within, levels=levels, gpus=True)
            result = self._reclaim(both, kept_from, can_move)
        return result

    def _has_gpus(self, request: RequestClass, kept_from: NodeSet) -> bool:
        """Whether as many GPUs are free as it needs, one worker's on each node or more."""
        demand = replace(request.demand, cpus=0, memory=0)
        found, mask = 0, request.eligible & ~kept_from
        for bits in self.state.nodes.buckets[LATER].values():
            if bits & mask and found < request.gang_size:
                node = next(self.state.nodes.each(bits & mask))
                found += node.count(demand, LATER, request.gang_size) * (bits & mask).bit_count()
        return found >= request.gang_size

    def _reclaim(self, rules: Reclaim, kept_from: NodeSet, can_move: bool) -> SearchResult | None:
        job, project, within = rules.newcomer, rules.project, rules.within
        request = job.request
        if not rules.possible():
            return None
        name = (request.fit_class, kept_from, project.parent, rules.rights, within)
        if self._no_victims.get(name) == self.state.gains:
            return None
        over = NOTHING_OVER if within is None else over_limits(project, request)
        limited = None if within is None else project
        search = VictimSearch(self.state, self.placer, rules, self.budget, kept_from)
        result = search.search(over, limited, [Floor.KEPT])
        self.wakeup.note(rules.protected_until)
        if result is not None or can_move:
            return result
        if within is None and rules.inside_guarantee and not isinstance(rules, ReclaimBeside):
            result = self.moves.rearrange(rules, self.budget, kept_from)
        if result is None and rules.some_cross:
            result = search.search(over, limited)
        if result is None:
            self._no_victims[name] = self.state.gains
        return result

    def _preempt(
        self, job: WorkloadState, project: ProjectState, limited: bool, kept_from: NodeSet, pausing: bool = False
    ) -> SearchResult | None:
        """Take from less important jobs of the project or, if `pausing`, from those on higher service levels."""
        request = job.request
        if breaks_guarantee(request, project):
            return None
        over = over_limits(project, request) if limited else NOTHING_OVER
        rules: EligibilityRules = Preemption(self.state, job, project, self.wakeup.now)
        if pausing:
            rules = Pausing(self.state, job, project, self.wakeup.now, self.levels)
        result = VictimSearch(self.state, self.placer, rules, self.budget, kept_from).search(
            over, project if limited else None
        )
        self.wakeup.note(rules.protected_until)
        return result


def breaks_guarantee(request: RequestClass, project: ProjectState) -> bool:
    """Whether a job that can't be preempted would leave a guarantee on the path."""
    return not request.preemptible and (
        project.over_guarantee(request.gang_amount) is not None
        or bool(project.beside and project.over_guarantee_beside(request.gang_beside))
    )


def _fullest(request: RequestClass, project: ProjectState) -> ProjectState | None:
    """The project of the path furthest down whose limit the job would exceed; its state for GPUs."""
    asked = request.gang_beside
    full = {step.name for step in project.path if step.allocated + request.gang_amount > step.limit}
    for own in project.beside:
        if asked[own.index]:
            full.update([step.name for step in own.path if step.allocated + asked[own.index] > step.limit])
    return next((step for step in project.path if step.name in full), None)
