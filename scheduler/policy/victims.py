"""Whose GPUs are taken back so that a newcomer can start: the fewest, and those who lose least by it.

Candidates are gone through in order of rank. Each is taken on paper in the nodes where it stands; a node in which one
worker of the newcomer then fits is cleared. Within a class of equals the cleared node that loses least work is taken,
so a gang that needs whole machines clears whole machines rather than taking a job from each. At the end whoever is not
in the way after all is put back. If the gang does not stand in the end, nothing has happened.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from scheduler.model import Milli, WorkerPlacement
from scheduler.policy.demands import Demand
from scheduler.policy.nodes import NodeState
from scheduler.policy.paper import Paper
from scheduler.policy.placement import Placer
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState
from scheduler.policy.reservation import most_free
from scheduler.policy.terms import Cut, Terms
from scheduler.policy.topology import NODE
from scheduler.policy.workloads import RequestClass, by_rank

NODES = 64
"""How many nodes are looked at, those with the most free GPUs first, for a gang of groups that must stand on one."""


@dataclass(slots=True)
class SearchResult:
    """The end of a search: where the newcomer stands, who leaves or shrinks for it, and the work that this loses."""

    workers: list[WorkerPlacement]
    cuts: list[Cut]

    @property
    def loss(self) -> float:
        return sum(cut.loss for cut in self.cuts)


@dataclass(slots=True)
class Budget:
    """How many more candidates the searches of one cycle may look at."""

    looks: int


class Hunt:
    """One search for victims. The newcomer keeps away from the nodes `kept_from`."""

    def __init__(
        self, state: PoolState, placer: Placer, terms: Terms, budget: Budget, kept_from: int = 0
    ) -> None:
        self.state = state
        self.placer = placer
        self.terms = terms
        self.budget = budget
        self.mask = terms.newcomer.request.eligible & ~kept_from

    def search(self, over: int = 0, limited: ProjectState | None = None) -> SearchResult | None:
        """Places for the newcomer's gang, and whom that stops. First `over` is given back under the limit of `limited`."""
        request = self.terms.newcomer.request
        mark = self.state.mark()
        cuts = self._free_limit(over)
        if cuts is None:
            self.state.undo(mark)
            return None
        result = None
        if cuts:
            workers = self.placer.place(request, request.gang_size, True, self.mask)
            result = None if workers is None else SearchResult(workers, [])
        if result is None:
            result = self._search_domains()
        if result is None:
            self.state.undo(mark)
            return None
        return SearchResult(result.workers, self._put_back([*cuts, *result.cuts], limited))

    def _search_domains(self) -> SearchResult | None:
        request = self.terms.newcomer.request
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
        domains: list[int] = [self.mask]
        if request.require == NODE:
            domains = [node.bit for node in most_free(self.state, self.mask, NODES)]
        elif request.require is not None:
            domains = [
                domain & self.mask for domain in topology.domains(request.require) if domain & self.mask
            ]
        for domain in domains:
            mark, cuts, found = self.state.mark(), list[Cut](), dict[int, list[WorkerPlacement]]()
            for number, group in request.largest_first:
                result = self._search(group.demand, group.gang_size, group.eligible & domain)
                if result is None:
                    self.state.undo(mark)
                    break
                cuts += result.cuts
                found[number] = result.workers
            else:
                return SearchResult(by_rank(found), cuts)
        return None

    def _free_limit(self, over: int) -> list[Cut] | None:
        """Cut until `over` is given back; None where it can't be."""
        cuts: list[Cut] = []
        if over <= 0:
            return cuts
        for members in self.terms.classes():
            for cut in members:
                if over > 0 and self._allowed(cut):
                    make(self.state, cut)
                    cuts.append(cut)
                    over -= cut.amount
        return cuts if over <= 0 else None

    def _search(self, demand: Demand, count: int, mask: int, together: int = 1) -> SearchResult | None:
        """Clear nodes of `mask` until `count` times `together` workers stand."""
        mark = self.state.mark()
        desk = Desk(self.state, self.terms, demand, mask, together)
        desk.use_free(count)
        for straddling in (False, True):
            if desk.seated < count:
                self._go_through(desk, count, straddling)
        if desk.seated < count:
            self.state.undo(mark)
            return None
        return SearchResult(desk.workers, desk.cuts)

    def _go_through(self, desk: Desk, count: int, straddling: bool) -> None:
        for members in self.terms.classes():
            for cut in members:
                while desk.seated < count and desk.cheapest() <= cut.loss:
                    desk.take()
                if desk.seated == count or self.budget.looks <= 0:
                    return
                self.budget.looks -= 1
                if not cut.gone:
                    desk.consider(cut, straddling)
            while desk.seated < count and desk.cleared:
                desk.take()
            if desk.seated == count:
                return

    def _allowed(self, cut: Cut) -> bool:
        return not cut.gone and (cut.worker is None or len(cut.job.placement) > cut.job.request.gang_size)

    def _put_back(self, cuts: list[Cut], limited: ProjectState | None) -> list[Cut]:
        """Undo, the last first, the cuts that are not needed after all."""
        request = self.terms.newcomer.request
        kept: list[Cut] = []
        for cut in reversed(cuts):
            if cut.worker is not None and cut.job.releasing:
                continue  # it shrank first and was stopped after all: it counts as stopped
            held = list(cut.standing)
            fits_limit = limited is None or _within_limits(limited, request.gang_amount, cut)
            if fits_limit and self.state.has_place(held):
                if cut.worker is None:
                    self.state.reinstate(cut.job)
                else:
                    self.state.regrow(cut.job, cut.worker)
            else:
                kept.append(cut)
        return kept[::-1]


def _within_limits(project: ProjectState, asked: Milli, cut: Cut) -> bool:
    """Whether the limits of a path allow both the newcomer and one that was cut."""
    assert cut.job.project is not None
    others = cut.job.project.path
    return all(
        step.allocated + asked + (cut.amount if step in others else 0) <= step.limit for step in project.path
    )


def make(state: PoolState, cut: Cut) -> None:
    """Carry out a cut (in the plan)."""
    if cut.worker is None:
        state.release(cut.job)
    else:
        state.shrink(cut.job, cut.worker)


class Desk:
    """The papers of one search: what each node would be without those considered, and which nodes are cleared."""

    def __init__(self, state: PoolState, terms: Terms, demand: Demand, mask: int, together: int) -> None:
        self.state = state
        self.terms = terms
        self.demand = demand
        self.together = together
        self.mask = mask
        self.papers: dict[int, Paper] = {}
        self.cleared: list[tuple[float, int, int]] = []
        self.workers: list[WorkerPlacement] = []
        self.cuts: list[Cut] = []
        self.seated = 0

    def use_free(self, count: int) -> None:
        """Seat what fits without anybody leaving."""
        nodes = self.state.nodes
        while self.seated < count:
            node = nodes.together(self.demand, self.together, self.mask, True)
            if node is None:
                return
            self._seat(node)

    def _seat(self, node: NodeState) -> None:
        self.workers.extend([self.state.seat(node, self.demand, True) for _ in range(self.together)])
        self.seated += 1

    def consider(self, cut: Cut, straddling: bool) -> None:
        """Take a candidate on paper, in each of its nodes."""
        by_name = self.state.nodes.by_name
        for name in {worker.node: None for worker in cut.workers}:
            node = by_name[name]
            if not self.mask & node.bit:
                continue
            paper = self.papers.get(node.index)
            if paper is None:
                paper = self.papers[node.index] = Paper(node)
            if paper.cleared:
                if paper.improve(cut, straddling, self.terms, self.demand, self.together):
                    self._push(paper)
            elif paper.take(cut, self.terms, straddling) and paper.fits(self.demand, self.together):
                self._clear(paper)

    def _clear(self, paper: Paper) -> None:
        paper.drop_unneeded(self.demand, self.together)
        paper.cleared = True
        self._push(paper)

    def _push(self, paper: Paper) -> None:
        heapq.heappush(self.cleared, (paper.loss(), len(paper.cuts), paper.node.index))

    def cheapest(self) -> float:
        """The work that the cheapest cleared node loses."""
        return self.cleared[0][0] if self.cleared else float("inf")

    def take(self) -> None:
        """Make the cuts of the cheapest cleared node, and seat there."""
        loss, _, index = heapq.heappop(self.cleared)
        paper = self.papers[index]
        if not paper.cleared or paper.loss() != loss:
            return  # a better way to clear this node was found meanwhile
        paper.cleared = False
        if not paper.still_stands(self.terms, self.demand, self.together):
            self._look_again(paper)
            return
        made = paper.made()
        for cut in made:
            make(self.state, cut)
        self.cuts.extend(made)
        self._seat(paper.node)
        nodes = {self.state.nodes.by_name[worker.node].index for cut in made for worker in cut.workers}
        for changed in sorted({index, *nodes}):
            other = self.papers.get(changed)
            if other is not None and not other.cleared:
                self._look_again(other)

    def _look_again(self, paper: Paper) -> None:
        """Things have changed for this node: begin its paper anew with those that were considered."""
        paper.begin_again(self.terms, self.demand, self.together)
        if paper.fits(self.demand, self.together):
            self._clear(paper)
