"""The jobs from which a newcomer may reclaim CPUs and memory, by the rules for GPUs.

A project may take back what it is guaranteed of a resource from projects above their guarantee of it, and what it is
due from projects above their due. A newcomer that needs GPUs must be within what its project is due of GPUs, too. Jobs
without GPUs go first: a job that has them often holds no more CPUs than come with its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.model import ReclaimUpTo
from scheduler.policy.eligibility import Reclaim
from scheduler.policy.evictions import Eviction, Floor, Listed, Losses, VictimClass, by_importance
from scheduler.policy.levels import ServiceLevels
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState, ResourceState
from scheduler.policy.workloads import WorkloadState


class ReclaimBeside(Reclaim):
    """`gpus`: those who hold GPUs that the newcomer may take back are candidates, too."""

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
        gpus: bool,
    ) -> None:
        super().__init__(state, newcomer, project, now, up_to=up_to, within=within, levels=levels)
        self.gpus = gpus
        self.parts: list[tuple[int, Reclaim]] = []
        asked = newcomer.request.gang_beside
        for own in project.beside if not self.asked or super().possible() else ():
            part = Reclaim(state, newcomer, own, now, up_to=up_to, within=_same(own, within))
            part.asked = asked[own.index]
            if part.asked and part.possible():
                self.parts.append((own.index, part))

    def possible(self) -> bool:
        return bool(self.parts)

    @property
    def rights(self) -> tuple[object, ...]:
        return (self.inside_guarantee, self.gpus, *[(index, part.inside_guarantee) for index, part in self.parts])

    def classes(self) -> Iterator[VictimClass]:
        if self.gpus:
            yield from super().classes()
        able = sorted(self._able_beside(), key=lambda entry: (-entry[0], entry[1].created, entry[1].name))
        projects = [project for _, project in able]
        for project in projects:
            if self.state.candidates[project].elastic:
                yield Listed(self.state, sorted(self._surplus(project), key=by_importance))
        for wanted in (_without_gpus, _with_gpus):
            for project in projects:
                for priority in self.state.candidates[project].below(None):
                    yield self._whole([project], priority, wanted)

    def _able_beside(self) -> Iterator[tuple[float, ProjectState]]:
        """The projects that may lose something, with the part of what they hold that is above their due."""
        for project, candidates in self.state.candidates.items():
            if not candidates:
                continue
            excess = [
                (state.allocated - min(state.allocated, state.due)) / state.allocated
                for index, part in self.parts
                for state in project.beside
                if state.index == index and state.allocated and part.may_give_back(state, 0, {}, Floor.CROSSED)
            ]
            if excess:
                yield max(excess), project

    def may_lose(self, eviction: Eviction, losses: Losses, floor: Floor) -> bool:
        if self.gpus and super().may_lose(eviction, losses, floor):
            return True
        assert eviction.job.project is not None
        given_back = eviction.beside
        for index, part in self.parts:
            amount = given_back[index]
            state = next(state for state in eviction.job.project.beside if state.index == index)
            if amount and part.may_give_back(state, amount, losses, floor):
                return True
            self.some_cross |= part.some_cross
        return False

    def justified(self, evictions: Iterable[Eviction]) -> bool:
        return all(self._justified(eviction) for eviction in evictions)

    def _justified(self, eviction: Eviction) -> bool:
        project = eviction.job.project
        assert project is not None
        if self.gpus and self.floors(project) is not None:
            return True
        given_back = eviction.beside
        return any(
            given_back[index] and part.floors(state) is not None
            for index, part in self.parts
            for state in project.beside
            if state.index == index
        )


def _without_gpus(eviction: Eviction) -> bool:
    return not eviction.amount and any(eviction.beside)


def _with_gpus(eviction: Eviction) -> bool:
    return bool(eviction.amount) and any(eviction.beside)


def _same(own: ResourceState, within: ProjectState | None) -> ProjectState | None:
    """The state of the project `within` for the same resource."""
    return None if within is None else next(step for step in own.path if step.name == within.name)
