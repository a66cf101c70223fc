"""Places a gang as close together as possible, and keeps whole machines free.

A gang goes to one link group of a node if it fits there, else to one node, else to the narrowest domain in which it
fits, else to the fewest nodes anywhere. A node pool that spreads uses the emptiest nodes instead, unless the gang
prefers to be together. A required level is a rule: a gang that fits in none of its domains waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from scheduler.model import ONE, WorkerPlacement
from scheduler.policy.demands import Demand
from scheduler.policy.nodes import LATER, NodeState, When
from scheduler.policy.packing import Packing
from scheduler.policy.poolstate import PoolState
from scheduler.policy.sets import NodeSet, union
from scheduler.policy.topology import NODE, Topology
from scheduler.policy.workloads import RequestClass, by_rank

Workers = list[WorkerPlacement]

NODES = 16
"""On how many nodes the groups of a gang are tried together, those with the most free GPUs first."""

STEPS = 500
"""How many places a search for the groups of one gang may try."""


class Placer:
    """Finds and takes places. If a gang can't be placed whole, nothing is taken."""

    def __init__(self, state: PoolState, topology: Topology) -> None:
        self.state = state
        self.nodes = state.nodes
        self.topology = topology

    def place(self, request: RequestClass, count: int, when: When, mask: NodeSet | None = None) -> Workers | None:
        """Place `count` workers of `request` on nodes of `mask`, or none."""
        for preferred, one_node in request.scopes:
            within = preferred if mask is None else preferred & mask
            if within:
                place = self._place_groups if request.groups else self._place_within
                workers = place(request, count, when, within, one_node)
                if workers is not None:
                    return workers
        return None

    def _place_groups(
        self, request: RequestClass, count: int, when: When, mask: NodeSet, one_node: bool
    ) -> Workers | None:
        """Place the groups of a gang as close together as possible, the largest workers first."""
        if count != request.gang_size:
            return None
        packing = Packing(self.state, request, when, STEPS)
        for domain in self.domains(request, mask, when, one_node):
            if self.nodes.free_gpus(domain, when) < request.gang_gpus * ONE:
                continue
            found = dict[int, Workers]()
            with self.state.trial() as trial:
                for number, group in request.largest_first:
                    workers = self.place(group, group.gang_size, when, domain)
                    if workers is None:
                        break
                    found[number] = workers
                else:
                    trial.commit()
                    return by_rank(found)
            packed = packing.within(domain & request.eligible)
            if packed is not None:
                return by_rank(packed)
        return None

    def domains(self, request: RequestClass, mask: NodeSet, when: When, one_node: bool = False) -> Iterator[NodeSet]:
        """The sets of nodes in which the groups of a gang are tried together: from one node to ever wider domains."""
        within = (request.require, request.prefer)
        if request.require not in (None, NODE):
            mask &= union(self.topology.domains(request.require))
        if not request.spread or NODE in within or one_node:
            yield from islice(self._single_nodes(request, mask, when), NODES)
        if request.require == NODE or one_node:
            return
        for level in self.topology.levels:
            if not request.spread or level in within:
                yield from (domain & mask for domain in self.topology.domains(level) if domain & mask)
            if level == request.require:
                return
        if request.require is None:
            yield mask

    def _single_nodes(self, request: RequestClass, mask: NodeSet, when: When) -> Iterator[NodeSet]:
        """The nodes that take each group by itself, and the whole GPUs, CPUs and memory of all. Where no group asks for
        parts of GPUs, nodes with the same free GPUs are alike, and one of them is enough."""
        cpus, memory = request.gang_beside
        gang = Demand(request.gang_gpus, cpus=cpus, memory=memory)
        partial = any(group.demand.partial for group in request.groups)
        for _, nodes in sorted(self.nodes.buckets[when].items(), reverse=True):
            for node in self.nodes.each(nodes & mask):
                if node.takes(gang, when) and all(
                    node.count(group.demand, when, group.gang_size) == group.gang_size for group in request.groups
                ):
                    yield node.bit
                    if not partial:
                        break

    def may_fit(self, request: RequestClass) -> bool:
        """A quick look: False where the gang certainly fits nowhere, now or later."""
        if request.groups:
            return all(self.may_fit(group) for group in request.groups)
        if request.gang_size == 1 or not request.demand.whole:
            return self.nodes.best(request.demand, request.eligible, LATER, False) is not None
        return self.bound(request.demand, request.eligible, LATER, None) >= request.gang_size

    def _place_within(
        self, request: RequestClass, count: int, when: When, mask: NodeSet, one_node: bool
    ) -> Workers | None:
        demand = request.demand
        if request.require is not None and request.require != NODE:
            mask &= union(self.topology.domains(request.require))
        if count == 1:
            return self._one(demand, mask, when, request.spread)
        if self.bound(demand, mask, when, count) < count:
            return None
        if not request.spread or one_node or request.require == NODE or request.prefer == NODE:
            workers = self._on_one_node(demand, count, mask, when)
            if workers is not None:
                return workers
        if one_node or request.require == NODE:
            return None
        for level in self._levels(request):
            workers = self._in_one_domain(request, count, mask, when, level)
            if workers is not None:
                return workers
            if level == request.require:
                return None
        if request.require is not None:
            return None
        return self._anywhere(demand, count, mask, when, request.spread)

    def _levels(self, request: RequestClass) -> tuple[str, ...]:
        """The levels in which the gang is tried, from narrow to wide."""
        if not request.spread:
            return self.topology.levels
        return tuple(level for level in self.topology.levels if level in (request.prefer, request.require))

    def _one(self, demand: Demand, mask: NodeSet, when: When, spread: bool) -> Workers | None:
        node = self.nodes.best(demand, mask, when, spread)
        return None if node is None else self.state.seat(node, demand, when)

    def _on_one_node(self, demand: Demand, count: int, mask: NodeSet, when: When) -> Workers | None:
        node = self.nodes.together(demand, count, mask, when)
        return None if node is None else self.state.seat(node, demand, when, count)

    def _in_one_domain(
        self, request: RequestClass, count: int, mask: NodeSet, when: When, level: str
    ) -> Workers | None:
        """The domain that the gang fills most tightly."""
        bounds = [
            (bound, number, domain)
            for number, domain in enumerate(self.topology.domains(level))
            if (bound := self.bound(request.demand, domain & mask, when, None)) >= count
        ]
        for _, _, domain in sorted(bounds):
            workers = self._anywhere(request.demand, count, domain & mask, when, request.spread)
            if workers is not None:
                return workers
        return None

    def _anywhere(self, demand: Demand, count: int, mask: NodeSet, when: When, spread: bool) -> Workers | None:
        """Fill the nodes that take the most workers first; the rest goes where it fits most tightly."""
        nodes = self.nodes
        workers: Workers = []
        with self.state.trial() as trial:
            while len(workers) < count:
                left = count - len(workers)
                if demand.partial or spread or left == 1:
                    node = nodes.best(demand, mask, when, spread)
                    fits = 1
                else:
                    node = nodes.together(demand, left, mask, when) or self._takes_most(demand, mask, when)
                    fits = 0 if node is None else node.count(demand, when, left)
                if node is None or not fits:
                    return None
                workers.extend(self.state.seat(node, demand, when, fits))
            trial.commit()
        return workers

    def _takes_most(self, demand: Demand, mask: NodeSet, when: When) -> NodeState | None:
        """The node that takes the most workers, the one with the least left over among those."""
        buckets = self.nodes.buckets[when]
        if not demand.whole:
            return max(self.nodes.each(mask), key=lambda r: (r.count(demand, when, 1 << 30), -r.index), default=None)
        for key in sorted(buckets, key=lambda key: (-(key[0] // demand.whole), key)):
            if key[0] >= demand.whole:
                for node in self.nodes.each(buckets[key] & mask):
                    if node.takes_beside(demand, when):
                        return node
        return None

    def beside(self, request: RequestClass, placement: tuple[WorkerPlacement, ...]) -> NodeSet:
        """The nodes on which a running gang may grow. If it requires a level, only those of its domain."""
        if request.require is None:
            return request.eligible
        bits = union([self.nodes.by_name[worker.node].bit for worker in placement])
        if request.require == NODE:
            return bits & request.eligible
        return union([domain for domain in self.topology.domains(request.require) if domain & bits]) & request.eligible

    def bound(self, demand: Demand, mask: NodeSet, when: When, enough: int | None) -> int:
        """How many workers fit at the most, judged by GPUs (exactly, where neither CPUs nor memory are asked for)."""
        if not demand.whole:
            return sum(node.count(demand, when, enough or 1 << 30) for node in self.nodes.each(mask))
        return sum(
            (bits & mask).bit_count() * (key[0] // demand.whole)
            for key, bits in self.nodes.buckets[when].items()
            if key[0] >= demand.whole
        )
