"""From which jobs a newcomer may take GPUs, how many, and in which order.

Reclaim works between projects, which are compared where their paths diverge: siblings as themselves, cousins as their
parents. Up to its fair share, a project reclaims from projects above their due; up to its guarantee, from all projects
above their guarantee. Preemption works inside one project, from jobs of lower priority. Surplus workers of elastic jobs
come before whole jobs, and a job whose eviction takes its project below its floor comes last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby

from scheduler.model import Milli, ReclaimUpTo, WorkloadId
from scheduler.policy.demands import amount_of
from scheduler.policy.evictions import (
    NOTHING_LOST,
    Eviction,
    Floor,
    Listed,
    Losses,
    VictimClass,
    WholeJobs,
    by_importance,
)
from scheduler.policy.levels import ServiceLevels
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState, sibling_ancestors
from scheduler.policy.workloads import WorkloadState

Floors = tuple[tuple[ProjectState, Milli], ...]
"""What each of some projects must stay above, or at, when one more of its jobs is taken."""


class EligibilityRules(ABC):
    """Who may be a victim. `classes` come in order of rank; in a class the eviction that loses the least work comes
    first."""

    def __init__(self, state: PoolState, newcomer: WorkloadState, now: float) -> None:
        self.state = state
        self.newcomer = newcomer
        self.now = now
        self.protected_until: float | None = None
        self.spared: Container[WorkloadId] = ()
        self.some_cross = False
        """Whether the eviction of somebody would have crossed a floor."""

    @abstractmethod
    def classes(self) -> Iterator[VictimClass]:
        """The evictions that might be made."""

    @abstractmethod
    def may_lose(self, eviction: Eviction, losses: Losses, floor: Floor) -> bool:
        """Whether this eviction is allowed after `losses`."""

    def justified(self, evictions: Iterable[Eviction]) -> bool:
        """Whether these, which have been made, are still allowed now that some others were undone."""
        return True

    def _whole(
        self, projects: Sequence[ProjectState], priority: int, wanted: Callable[[Eviction], bool] | None = None
    ) -> WholeJobs:
        """The jobs of some projects that have one priority."""
        return WholeJobs(self.state, projects, priority, self.now, self._unprotected, wanted)

    def _surplus(self, project: ProjectState, most: int | None = None) -> list[Eviction]:
        """The workers above their minimum of elastic jobs with a priority up to `most`."""
        evictions: list[Eviction] = []
        for job in list(self.state.candidates[project].elastic.values()):
            if (most is None or job.priority <= most) and self._unprotected(job):
                saved = job.saved
                for worker in reversed(job.placement):
                    amount = amount_of((worker,))
                    loss = 0.0 if saved is None else max(0.0, self.now - saved) * amount
                    evictions.append(Eviction(job, loss, amount, worker))
        evictions.sort(key=by_importance)
        return evictions

    def _unprotected(self, job: WorkloadState) -> bool:
        if job.id in self.spared:
            return False
        until = job.protected_until
        if until <= self.now:
            return True
        if self.protected_until is None or until < self.protected_until:
            self.protected_until = until
        return False


class Preemption(EligibilityRules):
    """A job takes GPUs from jobs of lower priority in its own project, and surplus workers from jobs of equal
    priority."""

    def __init__(self, state: PoolState, newcomer: WorkloadState, project: ProjectState, now: float) -> None:
        super().__init__(state, newcomer, now)
        self.project = project

    def classes(self) -> Iterator[VictimClass]:
        candidates = self.state.candidates.get(self.project)
        if not candidates:
            return
        priority = self.newcomer.priority
        if candidates.elastic:
            yield Listed(self.state, self._surplus(self.project, priority))
        for lower in candidates.below(priority):
            yield self._whole([self.project], lower)

    def may_lose(self, eviction: Eviction, losses: Losses, floor: Floor) -> bool:
        return floor is Floor.KEPT


@dataclass(eq=False)
class PathComparison:
    """How a newcomer's project and a victim's are compared, where their paths part.

    `steps` are the newcomer's project and those above it up to there, `theirs` is the victim's project or the one above
    it there, and `below` are those of its path below that one. The floors are those for a newcomer whose steps stay
    inside their guarantees with it, and inside their fair shares.
    """

    steps: tuple[ProjectState, ...]
    below: tuple[ProjectState, ...]
    theirs: ProjectState

    @cached_property
    def guaranteed(self) -> Floors:
        return tuple([(step, step.guarantee) for step in (*self.below, self.theirs)])

    @cached_property
    def due(self) -> Floors:
        return (*self.guaranteed[:-1], (self.theirs, self.theirs.kept_from_reclaim))


class Reclaim(EligibilityRules):
    """A project takes back what it is due or guaranteed. If a limit is in the way, only from projects below
    `within`. With `levels`, jobs on the highest service level come first among those of equal priority, where a stop
    loses less than they were served."""

    def __init__(
        self,
        state: PoolState,
        newcomer: WorkloadState,
        project: ProjectState,
        now: float,
        *,
        up_to: ReclaimUpTo,
        within: ProjectState | None = None,
        levels: ServiceLevels | None = None,
    ) -> None:
        super().__init__(state, newcomer, now)
        self.project = project
        self.levels = levels
        self.asked = newcomer.request.gang_amount
        self.within = within
        self.up_to = up_to
        self.to_fair_share = up_to is ReclaimUpTo.FAIR_SHARE and newcomer.preemptible
        self._comparisons: dict[ProjectState, PathComparison | None] = {}

    @property
    def inside_guarantee(self) -> bool:
        return self.project.allocated + self.asked <= self.project.guarantee

    def possible(self) -> bool:
        """Whether the newcomer's project may take back anything for it."""
        within_share = self.project.allocated + self.asked <= self.project.share
        return self.inside_guarantee or (self.to_fair_share and within_share)

    def classes(self) -> Iterator[VictimClass]:
        state = self.state
        able = sorted(self._able(), key=lambda entry: (*entry[:2], entry[2].created, entry[2].name))
        classes = [[project for *_, project in equals] for _, equals in groupby(able, lambda entry: entry[:2])]
        for projects in classes:
            surplus = [e for p in projects if state.candidates[p].elastic for e in self._surplus(p)]
            if surplus:
                yield Listed(state, sorted(surplus, key=by_importance))
        for projects in classes:
            for priority in sorted({p for project in projects for p in state.candidates[project].classes}):
                yield from self._jobs(projects, priority)

    def _jobs(self, projects: Sequence[ProjectState], priority: int) -> Iterator[VictimClass]:
        every = range(len(self.levels.thresholds) + 1 if self.levels is not None else 1)
        higher = [level for level in every[:0:-1] if any(project.on_levels[level] for project in projects)]
        for level in higher:
            yield self._whole(projects, priority, partial(self._is_on, (level,)))
        rest = [level for level in every if level not in higher]
        yield self._whole(projects, priority, partial(self._is_on, rest) if higher else None)

    def _is_on(self, levels: Sequence[int], eviction: Eviction) -> bool:
        assert self.levels is not None
        return self.levels.when_stopped(eviction.job.workload, self.now) in levels

    def finds_any(self) -> bool:
        """Whether some project may lose something to it."""
        return self.possible() and any(True for _ in self._able())

    def _able(self) -> Iterator[tuple[bool, Milli, ProjectState]]:
        """The projects that may lose something, with how far each is above its due, negated.

        Marked are those that may only once others have given back what a project above the newcomer's holds too much.
        """
        for project, candidates in self.state.candidates.items():
            if project.allocated <= project.never_reclaimed or not candidates.classes:
                continue
            compared = self._comparison_with(project)
            if compared is None:
                continue
            floors = self.floors(project)
            later = floors is None and self._able_later(compared.steps)
            if later:
                floors = compared.guaranteed
            if floors is not None and all(step.allocated > floor for step, floor in floors):
                theirs, _ = floors[-1]
                yield later, theirs.due - theirs.allocated, project

    def floors(self, victim: ProjectState, losses: Losses = NOTHING_LOST) -> Floors | None:
        """The projects of the victim's path with what each must be above to lose something; None: nothing.

        What a plan takes back counts as given back at every level at once: `losses` are what projects lose besides.
        """
        compared = self._comparison_with(victim)
        if compared is None:
            return None
        asked = self.asked
        for step in compared.steps:
            if step.allocated - losses.get(step, 0) + asked > step.guarantee:
                break
        else:
            return compared.guaranteed
        if not self.to_fair_share:
            return None
        for step in compared.steps:
            if step.allocated - losses.get(step, 0) + asked > step.share:
                return None
        return compared.due

    def _comparison_with(self, victim: ProjectState) -> PathComparison | None:
        try:
            return self._comparisons[victim]
        except KeyError:
            found = self._comparisons[victim] = self._compare_paths(victim)
            return found

    def _compare_paths(self, victim: ProjectState) -> PathComparison | None:
        if victim is self.project or victim.partition != self.project.partition:
            return None
        if self.within is not None and self.within not in victim.path:
            return None
        mine, theirs = sibling_ancestors(self.project, victim)
        steps = self.project.path[: self.project.depth - mine.depth + 1]
        return PathComparison(steps, victim.path[: victim.depth - theirs.depth], theirs)

    def _able_later(self, steps: tuple[ProjectState, ...]) -> bool:
        """Whether a guarantee allows it to all but the projects above the newcomer's, which hold something else."""
        own, above = steps[0], steps[1:]
        return (
            bool(above)
            and self.inside_guarantee
            and all(self.asked <= step.guarantee and step.allocated > own.allocated for step in above)
        )

    def justified(self, evictions: Iterable[Eviction]) -> bool:
        return all(self.floors(e.job.project) is not None for e in evictions if e.job.project is not None)

    def may_lose(self, eviction: Eviction, losses: Losses, floor: Floor) -> bool:
        assert eviction.job.project is not None
        if not eviction.amount and self.project.beside:
            return False  # CPUs and memory are taken back by rules of their own
        return self.may_give_back(eviction.job.project, eviction.amount, losses, floor)

    def may_give_back(self, victim: ProjectState, amount: int, losses: Losses, floor: Floor) -> bool:
        """Whether a project may lose so much more."""
        floors = self.floors(victim, losses)
        if floors is None:
            return False
        for project, least in floors:
            held = project.allocated - losses.get(project, 0)
            if held <= least:
                return False
            if floor is Floor.KEPT and held - amount < least:
                self.some_cross = True
                return False
        return True

    @property
    def rights(self) -> tuple[object, ...]:
        """What two newcomers have in common that may take from the same projects."""
        return (self.inside_guarantee,)


class Recall(EligibilityRules):
    """A session takes back the build GPUs that were lent to jobs."""

    def classes(self) -> Iterator[VictimClass]:
        own = self.newcomer.request.eligible
        nodes = self.state.nodes.by_name
        evictions = [
            Eviction(job, loss, job.amount)
            for candidates in self.state.candidates.values()
            for priority in candidates.below(None)
            for loss, *_, job in candidates.by_loss(priority, self.now)
            if any(nodes[worker.node].bit & own for worker in job.placement)
        ]
        evictions.sort(key=lambda eviction: (eviction.loss, eviction.job.id))
        yield Listed(self.state, evictions)

    def may_lose(self, eviction: Eviction, losses: Losses, floor: Floor) -> bool:
        return floor is Floor.KEPT
