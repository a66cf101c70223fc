"""Move preemptible jobs closer together so that a newcomer fits. No job is queued again, but each move costs a restart.

A node is cleared for one worker of the newcomer only if every job in its way gets another place in the same plan. The
search considers a bounded number of nodes, those with the most free GPUs, and first tries the one that loses least
work. On each node, it moves the jobs that lose least, or else the smallest, which are the easiest to place elsewhere.

If neither moving nor stopping jobs makes room, both together may (`rearrange`): the newcomer's project stops the jobs
that it may stop, and the others move to GPUs that their own projects may reclaim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from scheduler.model import Milli, ProjectName, ReclaimUpTo, WorkerPlacement, WorkloadId
from scheduler.policy.demands import Demand
from scheduler.policy.eligibility import EligibilityRules, Reclaim
from scheduler.policy.evictions import Eviction, Floor, Losses, VictimClass
from scheduler.policy.nodes import LATER, NOW, NodeState
from scheduler.policy.nodetrial import NodeTrial
from scheduler.policy.placement import Placer
from scheduler.policy.poolstate import PoolState
from scheduler.policy.reservation import Reservations, most_free
from scheduler.policy.sets import NO_NODES, NodeSet
from scheduler.policy.topology import NODE
from scheduler.policy.victims import Budget, SearchResult, VictimSearch
from scheduler.policy.workloads import WorkloadState, by_rank

NODES = 64
"""How many nodes are looked at for each worker."""

TRIALS = 8
"""In how many of them it is tried to place everybody again."""


class Moving(EligibilityRules):
    """Preemptible jobs may move. They lose no GPUs, and they avoid reserved nodes."""

    def __init__(self, state: PoolState, newcomer: WorkloadState, now: float, reservations: Reservations) -> None:
        super().__init__(state, newcomer, now)
        self.reservations = reservations

    def kept_from(self, job: WorkloadState) -> NodeSet:
        """The nodes to which a job must not move."""
        if job.project is None:
            return NO_NODES
        must, should = self.reservations.kept_from(job, job.project, moving_for=self.newcomer)
        return must | should

    def classes(self) -> Iterator[VictimClass]:
        yield from ()

    def may_lose(self, eviction: Eviction, losses: Losses, floor: Floor) -> bool:
        return True

    def on_node(self, node: NodeState) -> list[Eviction]:
        """The jobs that may be moved away from a node, the one that loses least work first."""
        evictions = []
        for job in self.state.standing.get(node.index, {}).values():
            if job.project is None or not job.preemptible or not job.workload.running or job.moved:
                continue
            if self._unprotected(job):
                saved = job.saved
                loss = 0.0 if saved is None else max(0.0, self.now - saved) * job.amount
                evictions.append(Eviction(job, loss, job.amount))
        evictions.sort(key=lambda eviction: (eviction.loss, eviction.job.id))
        return evictions


Way = tuple[tuple[float, Milli, int], int, list[Eviction]]
"""How a node may be cleared: the work lost, the GPUs that must be found elsewhere and for how many jobs; the node's
index; the jobs that leave."""

NO_WAYS: tuple[int, list[Way]] = -1, []
"""Of a node that was not looked at yet."""

Settle = Callable[[Eviction], list[Eviction] | None]
"""Finds another place for one that was evicted, and says who leaves for that in turn; None where it finds none."""


class Consolidation:
    """The moves of one cycle. How a node would be cleared is found once for each state of the node."""

    def __init__(self, state: PoolState, placer: Placer, reservations: Reservations, now: float) -> None:
        self.state = state
        self.placer = placer
        self.reservations = reservations
        self.now = now
        self.ways: dict[tuple[object, ...], list[Way]] = {}
        self.latest: dict[tuple[Demand, int], dict[int, tuple[int, list[Way]]]] = {}

    def consolidate(self, newcomer: WorkloadState, kept_from: NodeSet) -> SearchResult | None:
        """Places for the newcomer's gang and the jobs that move for it. None, with nothing changed, if there are
        none."""
        rules = Moving(self.state, newcomer, self.now, self.reservations)

        def settle(eviction: Eviction) -> list[Eviction] | None:
            job = eviction.job
            return [] if settle_elsewhere(self.state, self.placer, job, rules.kept_from(job)) else None

        return self._clear_nodes(rules, settle, kept_from)

    def rearrange(self, reclaim: Reclaim, budget: Budget, kept_from: NodeSet) -> SearchResult | None:
        """Places for the newcomer's gang, the jobs that move for it, and those that are stopped for it or for a job
        that moves."""
        rules = Moving(self.state, reclaim.newcomer, self.now, self.reservations)
        in_vain: set[tuple[int, ProjectName]] = set()

        def settle(eviction: Eviction) -> list[Eviction] | None:
            job, project = eviction.job, eviction.job.project
            assert project is not None
            if settle_elsewhere(self.state, self.placer, job, rules.kept_from(job)):
                return []
            floors = reclaim.floors(project)
            if job.amount and floors is not None and all(step.allocated >= floor for step, floor in floors):
                return []  # it may be stopped
            own = Reclaim(self.state, job, project, self.now, up_to=ReclaimUpTo.GUARANTEE)
            name = (job.request.fit_class, project.name)
            if name in in_vain or not own.possible() or len(job.placement) != job.request.gang_size:
                return None
            elsewhere = rules.kept_from(job) | project.nodes_at_limit(job.amount)
            result = VictimSearch(self.state, self.placer, own, budget, elsewhere).search()
            if result is None:
                in_vain.add(name)
                return None
            self.state.move(job, result.workers)
            return result.evictions

        return self._clear_nodes(rules, settle, kept_from)

    def _clear_nodes(self, rules: Moving, settle: Settle, kept_from: NodeSet) -> SearchResult | None:
        """Clear one node after another: places for the newcomer's gang, and the jobs that leave for it."""
        request = rules.newcomer.request
        mask = request.eligible & ~kept_from
        if request.groups and request.require == NODE:
            return None
        together = request.gang_size if request.require == NODE else 1
        domains = [mask]
        if request.require is not None and request.require != NODE:
            domains = [domain & mask for domain in self.placer.topology.domains(request.require)]
        for domain in domains:
            with self.state.trial() as attempt:
                found = self._clear_in(rules, settle, domain, together)
                if found is not None:
                    attempt.commit()
                    return found
        return None

    def _clear_in(self, rules: Moving, settle: Settle, domain: NodeSet, together: int) -> SearchResult | None:
        """The same within one domain."""
        evictions, found = list[Eviction](), dict[int, list[WorkerPlacement]]()
        for number, group in rules.newcomer.request.largest_first:
            result = SearchResult([], [])
            while len(result.workers) < group.gang_size:
                if not self._one_more(rules, settle, result, group.demand, domain & group.eligible, together):
                    return None
            evictions += result.evictions
            found[number] = result.workers
        return SearchResult(by_rank(found), evictions)

    def _one_more(
        self, rules: Moving, settle: Settle, result: SearchResult, demand: Demand, mask: NodeSet, together: int
    ) -> bool:
        """A place for one more worker (or for all that must stand together)."""
        state = self.state
        free = state.nodes.together(demand, together, mask, LATER)
        if free is not None:
            result.workers.extend(state.seat(free, demand, LATER, together))
            return True
        ways = self.ways_of(rules, most_free(state, mask, NODES), demand, together)
        ways.sort(key=_cheapest_first)
        for _, index, chosen in ways[:TRIALS]:
            with state.trial() as attempt:
                evictions = list(chosen)
                for eviction in evictions:
                    state.release(eviction.job)
                node = state.nodes.all[index]
                workers = state.seat(node, demand, LATER, together)
                for eviction in sorted(evictions, key=_largest_first):
                    others = settle(eviction)
                    if others is None:
                        break
                    evictions.extend(others)
                else:
                    attempt.commit()
                    result.workers.extend(workers)
                    result.evictions.extend(evictions)
                    return True
        return False

    def ways_of(self, rules: Moving, nodes: Iterable[NodeState], demand: Demand, together: int) -> list[Way]:
        """How nodes may be cleared: by moving those that lose least, and by moving the smallest."""
        latest = self.latest.setdefault((demand, together), {})
        ways = list[Way]()
        for node in nodes:
            version, found = latest.get(node.index, NO_WAYS)
            if version != node.version:
                found = self._ways_of(rules, node, demand, together)
                latest[node.index] = node.version, found
            ways += found
        return ways

    def _ways_of(self, rules: Moving, node: NodeState, demand: Demand, together: int) -> list[Way]:
        standing = self.state.standing.get(node.index, {}).values()
        held = tuple([(job, job.moved, job.amount) for job in standing])
        shares = tuple(node.shares.items())
        name = (node.index, demand, together, node.taken, node.cpus, node.memory, shares, held)
        found = self.ways.get(name)
        if found is None:
            found = self.ways[name] = _find_ways(rules, node, demand, together)
        return found


def _find_ways(rules: Moving, node: NodeState, demand: Demand, together: int) -> list[Way]:
    ways = list[Way]()
    cheapest = rules.on_node(node)
    smallest = sorted(cheapest, key=lambda eviction: eviction.amount)
    for evictions in (cheapest, smallest) if smallest != cheapest else (cheapest,):
        trial = NodeTrial(node)
        for eviction in evictions:
            if trial.fits(demand, together):
                break
            trial.take(eviction, rules, Floor.KEPT)
        if trial.fits(demand, together):
            trial.drop_unneeded(rules, demand, together)
            loss, count = trial.cost()
            leaving = trial.made()
            ways.append(((loss, sum([eviction.amount for eviction in leaving]), count), node.index, leaving))
    return ways


def settle_elsewhere(state: PoolState, placer: Placer, job: WorkloadState, kept_from: NodeSet = NO_NODES) -> bool:
    """Place a job that had to leave again, if there is a place. What it held itself is free for it."""
    if job.amount and state.nodes.all_taken():
        return False
    if job.project is not None:
        kept_from |= job.project.nodes_at_limit(job.amount)
    with state.without_own(job):
        workers = placer.place(job.request, len(job.placement), NOW, ~kept_from if kept_from else None)
    if workers is None:
        return False
    state.move(job, workers)
    return True


def _cheapest_first(way: Way) -> tuple[tuple[float, Milli, int], int]:
    return way[:2]


def _largest_first(eviction: Eviction) -> tuple[int, WorkloadId]:
    return -eviction.amount, eviction.job.id
