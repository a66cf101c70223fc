"""The search for the jobs that are stopped so that a newcomer can start: as few as possible, losing the least work.

Candidates are tried in order of rank, each on the nodes where it runs. A node on which one worker of the newcomer then
fits is cleared. Among candidates of equal rank, the cleared node that loses the least work is chosen, so a gang that
needs whole machines clears whole machines and does not stop one job on each of many. At the end, evictions that turned
out not to be needed are undone. If the gang gets no place, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.model import MiB, Milli, WorkerPlacement
from scheduler.policy.clearing import SearchState
from scheduler.policy.demands import Demand
from scheduler.policy.eligibility import EligibilityRules
from scheduler.policy.evictions import NOTHING_LOST, Eviction, Floor, VictimClass, WholeJobs, make
from scheduler.policy.nodes import LATER
from scheduler.policy.placement import Placer
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState
from scheduler.policy.reservation import most_free
from scheduler.policy.sets import NO_NODES, NodeSet
from scheduler.policy.topology import NODE
from scheduler.policy.workloads import RequestClass, by_rank

NODES = 64
"""How many nodes are looked at, those with the most free GPUs first, for a gang of groups that must stand on one."""

LOOKS = 100_000
"""How many candidates, on nodes that these might clear, one search may look at."""

BETTER = 1000
"""How many more candidates of equal rank it looks at for better victims once enough nodes are cleared."""

Over = tuple[Milli, Milli, MiB]
"""By how many GPUs, CPUs and how much memory limits would be exceeded."""

NOTHING_OVER: Over = (0, 0, 0)


@dataclass(slots=True)
class SearchResult:
    """The result of a search: the newcomer's placement, the victims and shrunk jobs, and the work that is lost."""

    workers: list[WorkerPlacement]
    evictions: list[Eviction]

    @property
    def loss(self) -> float:
        return sum(eviction.loss for eviction in self.evictions)


@dataclass(slots=True)
class Budget:
    """How many more candidates the searches of one cycle may look at before no other search begins."""

    looks: int


class VictimSearch:
    """One search for victims. The newcomer keeps away from the nodes `kept_from`."""

    def __init__(
        self,
        state: PoolState,
        placer: Placer,
        rules: EligibilityRules,
        budget: Budget,
        kept_from: NodeSet = NO_NODES,
    ) -> None:
        self.state = state
        self.placer = placer
        self.rules = rules
        self.budget = budget
        self.mask = rules.newcomer.request.eligible & ~kept_from
        self.floors: Sequence[Floor] = tuple(Floor)
        self.looks = LOOKS if budget.looks > 0 else 0

    def search(
        self, over: Over = NOTHING_OVER, limited: ProjectState | None = None, floors: Sequence[Floor] = tuple(Floor)
    ) -> SearchResult | None:
        """Places for the newcomer's gang, and the evictions for them. First, `over` is given back under the limit of
        `limited`."""
        request = self.rules.newcomer.request
        self.floors = floors
        with self.state.trial() as trial:
            evictions = self._free_limit(over)
            if evictions is None:
                return None
            result = None
            if evictions:
                workers = self.placer.place(request, request.gang_size, LATER, self.mask)
                result = None if workers is None else SearchResult(workers, [])
            if result is None:
                result = self._search_domains()
            if result is None:
                return None
            trial.commit()
        return SearchResult(result.workers, self._put_back([*evictions, *result.evictions], limited))

    def one_more(self, mask: NodeSet) -> SearchResult | None:
        """A place for one more worker in nodes of `mask`, and the evictions for it."""
        with self.state.trial() as trial:
            result = self._search(self.rules.newcomer.request.demand, 1, mask)
            if result is None:
                return None
            trial.commit()
        return SearchResult(result.workers, self._put_back(result.evictions, None))

    def _search_domains(self) -> SearchResult | None:
        request = self.rules.newcomer.request
        demand, count, mask = request.demand, request.gang_size, self.mask
        if request.groups:
            return self._search_groups(request)
        if request.require is None or (count == 1 and request.require == NODE):
            return self._search(demand, count, mask)
        if request.require == NODE:
            return self._search(demand, 1, mask, together=count)
        for domain in self.placer.topology.domains(request.require):
            if domain & mask:
                result = self._search(demand, count, domain & mask)
                if result is not None:
                    return result
        return None

    def _search_groups(self, request: RequestClass) -> SearchResult | None:
        """Clear nodes for one group after the other, all within one domain where that is a rule."""
        topology = self.placer.topology
        domains: list[NodeSet] = [self.mask]
        if request.require == NODE:
            domains = [node.bit for node in most_free(self.state, self.mask, NODES)]
        elif request.require is not None:
            domains = [domain & self.mask for domain in topology.domains(request.require) if domain & self.mask]
        for domain in domains:
            evictions, found = list[Eviction](), dict[int, list[WorkerPlacement]]()
            with self.state.trial() as trial:
                for number, group in request.largest_first:
                    result = self._search(group.demand, group.gang_size, group.eligible & domain)
                    if result is None:
                        break
                    evictions += result.evictions
                    found[number] = result.workers
                else:
                    trial.commit()
                    return SearchResult(by_rank(found), evictions)
        return None

    def _free_limit(self, over: Over) -> list[Eviction] | None:
        """Eviction until `over` is given back; None where it can't be."""
        evictions: list[Eviction] = []
        gpus, cpus, memory = over
        for floor in self.floors:
            for members in self.rules.classes() if max(gpus, cpus, memory) > 0 else ():
                for eviction in members.each():
                    if not (gpus > 0 or cpus > 0 or memory > 0):
                        break
                    given_back = eviction.beside
                    helps = (
                        (gpus > 0 and eviction.amount) or (cpus > 0 and given_back[0]) or (memory > 0 and given_back[1])
                    )
                    if helps and self._allowed(eviction, floor):
                        make(self.state, eviction)
                        evictions.append(eviction)
                        gpus -= eviction.amount
                        cpus -= given_back[0]
                        memory -= given_back[1]
        return evictions if max(gpus, cpus, memory) <= 0 else None

    def _search(self, demand: Demand, count: int, mask: NodeSet, together: int = 1) -> SearchResult | None:
        """Clear nodes of `mask` until `count` times `together` workers stand."""
        search = SearchState(self.state, self.rules, demand, mask, together)
        with self.state.trial() as trial:
            search.use_free(count)
            for floor in self.floors:
                if search.seated < count and (floor is Floor.KEPT or search.more_with_crossing()):
                    classes = list(self.rules.classes())
                    if not search.may_seat(count, classes):
                        return None
                    self._go_through(search, count, classes, floor)
            if search.seated < count:
                return None
            trial.commit()
        return SearchResult(search.workers, search.evictions)

    def _go_through(self, search: SearchState, count: int, classes: Iterable[VictimClass], floor: Floor) -> None:
        for members in classes:
            if self.looks <= 0:
                return
            self._look()
            nodes, by_loss, better = search.may_be_cleared(members), isinstance(members, WholeJobs), BETTER
            for eviction in members.each(nodes) if nodes else ():
                better -= len(search.cleared) >= count - search.seated
                while search.cleared and search.seated < count:
                    if better > 0 and search.cheapest() > (eviction.loss, 1):
                        break
                    search.take(count)
                if search.seated == count or self.looks <= 0:
                    break
                self._look()
                if not eviction.gone and not (by_loss and search.take_alone(eviction, floor, count)):
                    search.consider(eviction, floor, nodes)
            while search.seated < count and search.cleared:
                search.take(count)
            if search.seated == count:
                return
            search.passed(members, floor)

    def _look(self) -> None:
        self.looks -= 1
        self.budget.looks -= 1

    def _allowed(self, eviction: Eviction, floor: Floor) -> bool:
        return (
            not eviction.gone
            and (eviction.worker is None or len(eviction.job.placement) > eviction.job.request.gang_size)
            and self.rules.may_lose(eviction, NOTHING_LOST, floor)
        )

    def _put_back(self, evictions: list[Eviction], limited: ProjectState | None) -> list[Eviction]:
        """Undo, the last first, the evictions that are not needed after all."""
        request = self.rules.newcomer.request
        kept: list[Eviction] = []
        for eviction in reversed(evictions):
            if eviction.worker is not None and eviction.job.releasing:
                continue  # it shrank first and was stopped after all: it counts as stopped
            held = list(eviction.standing)
            fits_limit = limited is None or _within_limits(limited, request, eviction)
            if not (fits_limit and self.state.has_place(held) and self._undo(eviction, evictions)):
                kept.append(eviction)
        return kept[::-1]

    def _undo(self, eviction: Eviction, evictions: list[Eviction]) -> bool:
        """Undo an eviction, unless the others are then no longer justified."""
        with self.state.trial() as trial:
            if eviction.worker is None:
                self.state.reinstate(eviction.job)
            else:
                self.state.regrow(eviction.job, eviction.worker)
            if self.rules.justified(other for other in evictions if other.gone):
                trial.commit()
                return True
        return False


def _within_limits(project: ProjectState, request: RequestClass, eviction: Eviction) -> bool:
    """Whether the limits of a path allow both the newcomer and an evicted one."""
    assert eviction.job.project is not None
    others = eviction.job.project.path
    asked, given_back, both = request.gang_amount, eviction.beside, request.gang_beside
    return all(
        step.allocated + asked + (eviction.amount if step in others else 0) <= step.limit for step in project.path
    ) and all(
        step.allocated + both[own.index] + (given_back[own.index] if step in theirs.path else 0) <= step.limit
        for own, theirs in zip(project.beside, eviction.job.project.beside, strict=True)
        if both[own.index]
        for step in own.path
    )


def over_limits(project: ProjectState, request: RequestClass) -> Over:
    """How much the newcomer's path would be above its limits with it."""
    asked, over = request.gang_beside, [0, 0]
    for own in project.beside:
        if asked[own.index]:
            over[own.index] = max([step.allocated + asked[own.index] - step.limit for step in own.path])
    return max([step.allocated + request.gang_amount - step.limit for step in project.path]), over[0], over[1]
