"""One `Ask` for all requests that ask for the same, with the nodes that qualify for it.

Which nodes qualify is decided once: the environment, the node pools in the order of preference, the accepted types of
GPU, and that the node is big enough for a worker. Where it is known how fast jobs like one ran on which type of GPU, the
nodes of each preference are tried from the fastest to the slowest; a job waits for none of them while another is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.model import ONE, Environment, Milli, PlacementStyle, Pool, Request
from scheduler.policy.demands import Demand, demand_of
from scheduler.policy.nodes import NodeIndex, NodeState
from scheduler.policy.work import Ask, Try

ALIKE = 950
"""Types of GPU that reach so many thousandths of the throughput of the fastest among them are tried as one set."""


class Asks:
    """`kinds` has one ask for all that fit or don't fit alike."""

    def __init__(self, pool: Pool, nodes: NodeIndex) -> None:
        self.nodes = nodes.all
        self.lending = pool.settings.lending
        self.pools = {node_pool.name: node_pool for node_pool in pool.node_pools}
        self._asks: dict[tuple[object, ...], Ask] = {}
        self._masks: dict[tuple[object, ...], int] = {}
        self._demands: dict[Demand, Demand] = {}
        self._types: dict[str | None, int] = {}
        for node in self.nodes:
            self._types[node.spec.gpu_type] = self._types.get(node.spec.gpu_type, 0) | node.bit
        self.kinds: dict[int, Ask] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self._within: dict[tuple[Ask, int], Ask] = {}

    def environment_of(self, node_pool: str) -> Environment:
        known = self.pools.get(node_pool)
        if known is not None:
            return known.environment
        return Environment.BUILD if node_pool == Environment.BUILD else Environment.TRAIN

    def of(self, request: Request) -> Ask:
        shape = request.shape
        name = (
            shape.gpus, shape.gpu_memory, shape.cpus, shape.memory, request.workers, request.min_workers,
            request.priority, request.preemptible, request.gpu_types, request.node_pools, request.require,
            request.prefer, request.environment, request.groups, request.throughputs,
            request.spread_throughputs,
        )  # fmt: skip
        ask = self._asks.get(name)
        if ask is None:
            make = self._make_of_groups if request.groups else self._make
            ask = self._asks[name] = make(request)
        return ask

    def within(self, ask: Ask, partition: int, mask: int) -> Ask:
        """The same ask, for the nodes `mask` of one partition only."""
        if not ask.qualifies & ~mask:
            return ask
        found = self._within.get((ask, partition))
        if found is None:
            alike = (ask.kind, partition, "within")
            found = self._within[ask, partition] = replace(
                ask,
                kind=self._kinds.setdefault(alike, len(self._kinds)),
                masks=tuple([both for preferred in ask.masks if (both := preferred & mask)]),
                tries=tuple([(both, one_node) for nodes, one_node in ask.tries if (both := nodes & mask)]),
                qualifies=ask.qualifies & mask,
                groups=tuple([self.within(group, partition, mask) for group in ask.groups]),
            )
            self.kinds.setdefault(found.kind, found)
        return found

    def _make_of_groups(self, request: Request) -> Ask:
        """An ask of several groups. Where all must stand together is a rule for the whole, not for each."""
        plain = replace(request, groups=(), require=None)
        groups = tuple(
            self.of(replace(plain, shape=group.shape, workers=group.workers, min_workers=group.workers))
            for group in request.groups
        )
        largest = max(groups, key=lambda group: (group.each, group.demand.cpus))
        qualifies = 0
        if all(group.qualifies for group in groups):
            for group in groups:
                qualifies |= group.qualifies
        tries = [(qualifies, False)] if request.node_pools else self._fastest_first(qualifies, request)
        alike = (tuple(group.kind for group in groups), request.require)
        ask = replace(
            largest,
            kind=self._kinds.setdefault(alike, len(self._kinds)),
            workers=sum(group.workers for group in groups),
            gang=sum(group.gang for group in groups),
            least=sum(group.least for group in groups),
            require=request.require,
            masks=(qualifies,) if qualifies else (),
            tries=tuple(tries),
            qualifies=qualifies,
            request=request,
            groups=groups,
            demands=tuple(group.demand for group in groups for _ in range(group.gang)),
        )
        self.kinds.setdefault(ask.kind, ask)
        return ask

    def _make(self, request: Request) -> Ask:
        demand = demand_of(request.shape)
        demand = self._demands.setdefault(demand, demand)
        masks = tuple([mask for mask in self._preferences(request, demand) if mask])
        qualifies = _union(masks)
        tries = tuple([each for mask in masks for each in self._fastest_first(mask, request)])
        each = self._each(demand, qualifies)
        spread = self._spreads(request)
        alike = (demand, request.min_workers, tries, request.require, request.prefer, spread)
        kind = self._kinds.setdefault(alike, len(self._kinds))
        ask = Ask(
            kind=kind,
            demand=demand,
            workers=max(request.workers, request.min_workers),
            gang=request.min_workers,
            each=each,
            least=each * request.min_workers,
            preemptible=request.preemptible,
            priority=request.priority,
            require=request.require,
            prefer=request.prefer,
            masks=masks,
            tries=tries,
            qualifies=qualifies,
            spread=spread,
            request=request,
        )
        self.kinds.setdefault(kind, ask)
        return ask

    def _preferences(self, request: Request, demand: Demand) -> list[int]:
        """The sets of nodes that are tried one after the other; those lent by the other environment come last."""
        own = request.environment
        if request.node_pools:
            sets = [self._mask(request, demand, own, (name,)) for name in request.node_pools]
        else:
            sets = [self._mask(request, demand, own, None)]
        if self.lending and own is Environment.TRAIN and request.preemptible and not request.node_pools:
            sets.append(self._mask(request, demand, Environment.BUILD, None))
        return sets

    def _fastest_first(self, nodes: int, request: Request) -> list[Try]:
        """A set of nodes as sets of like throughput; nobody knows of a type that was never tried that it is slower.

        A gang runs at the pace of its slowest worker, and often slower over several nodes. So it is tried on one node of a
        type, over several of that type, and over those of faster types, too, each when no faster way is left.
        """
        if not request.throughputs:
            return [(nodes, False)]
        throughputs: dict[str | None, Milli] = dict(request.throughputs)
        spread: dict[str | None, Milli] = dict(request.spread_throughputs)
        best = max(throughputs.values())
        single = max(request.workers, request.min_workers) == 1
        ways = list[tuple[Milli, bool, int]]()
        for gpu_type, bits in self._types.items():
            if bits & nodes:
                throughput = throughputs.get(gpu_type, best)
                ways.append((throughput, not single, bits & nodes))
                if not single:
                    ways.append((min(throughput, spread.get(gpu_type, throughput)), False, bits & nodes))
        ways.sort(key=lambda way: way[0], reverse=True)
        tries, faster = list[Try](), 0
        while ways:
            alike = [way for way in ways if way[0] * ONE >= ALIKE * ways[0][0]]
            ways = ways[len(alike) :]
            anywhere = _union(bits for _, one_node, bits in alike if not one_node)
            together = _union(bits for _, _, bits in alike)
            if together & ~anywhere:
                tries.append((together, True))
            if anywhere:
                tries.append((anywhere, False))
                if faster and not single:
                    tries.append((faster | anywhere, False))
                faster |= anywhere
        return tries

    def _mask(
        self, request: Request, demand: Demand, environment: Environment, pools: tuple[str, ...] | None
    ) -> int:
        name = (demand, environment, pools, request.gpu_types)
        if name not in self._masks:
            self._masks[name] = sum(
                [
                    node.bit
                    for node in self.nodes
                    if node.spec.schedulable
                    and (pools is None or node.spec.node_pool in pools)
                    and self.environment_of(node.spec.node_pool) is environment
                    and (request.gpu_types is None or node.spec.gpu_type in request.gpu_types)
                    and _big_enough(node, demand)
                ]
            )
        return self._masks[name]

    def _each(self, demand: Demand, qualifies: int) -> Milli:
        """What one worker counts; for GPU memory the greatest share that it may come to."""
        if not demand.gpu_memory:
            return demand.whole * ONE + demand.share
        return max([demand.share_on(node.spec) for node in self.nodes if qualifies & node.bit], default=ONE)

    def _spreads(self, request: Request) -> bool:
        names = request.node_pools or [
            pool.name for pool in self.pools.values() if pool.environment is request.environment
        ]
        found = [self.pools[name] for name in names if name in self.pools]
        return bool(found) and found[0].placement is PlacementStyle.SPREAD


def _union(sets: Iterable[int]) -> int:
    nodes = 0
    for each in sets:
        nodes |= each
    return nodes


def _big_enough(node: NodeState, demand: Demand) -> bool:
    spec = node.spec
    return (
        demand.whole <= spec.gpus
        and (not demand.partial or (spec.gpus > 0 and demand.share_on(spec) <= ONE))
        and (spec.cpus is None or demand.cpus <= spec.cpus)
        and (spec.memory is None or demand.memory <= spec.memory)
    )
