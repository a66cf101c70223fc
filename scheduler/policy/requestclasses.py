"""One `RequestClass` for all equal requests, with its eligible nodes.

Which nodes qualify is decided once: the environment, the node pools in the order of preference, the accepted types of
GPU, and that the node is big enough for a worker. Where it is known how fast jobs like one ran on which type of GPU,
the nodes of each preference are tried from the fastest to the slowest; a job waits for none of them while another is
free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from scheduler.model import (
    BUILD_POOL,
    ONE,
    Environment,
    GpuType,
    Milli,
    NodeName,
    NodePoolName,
    PlacementStyle,
    Pool,
    Request,
    UserName,
)
from scheduler.policy.demands import Demand, demand_of
from scheduler.policy.nodeindex import NodeIndex
from scheduler.policy.nodes import NodeState
from scheduler.policy.sets import ALL_NODES, NO_NODES, NodeSet, union
from scheduler.policy.workloads import RequestClass, Scope

ALIKE = 950
"""Thousandths of the fastest type's throughput from which other types of GPU are tried as one set with it."""


_MaskKey = tuple[
    Demand, Environment, tuple[NodePoolName, ...] | None, tuple[GpuType, ...] | None, tuple[NodeName, ...]
]  # what `RequestClasses._eligible` depends on


class RequestClasses:
    """`fit_classes` has one request class for all that fit or don't fit alike."""

    def __init__(self, pool: Pool, nodes: NodeIndex) -> None:
        self._nodes = nodes
        self.nodes = nodes.all
        self.lending = pool.settings.lending
        self.pools = {node_pool.name: node_pool for node_pool in pool.node_pools}
        self._classes: dict[tuple[object, ...], RequestClass] = {}
        self._masks: dict[_MaskKey, NodeSet] = {}
        self._demands: dict[Demand, Demand] = {}
        self._types = self._by_type()
        self.fit_classes: dict[int, RequestClass] = {}
        self._fit_classes: dict[tuple[object, ...], int] = {}
        self._within: dict[tuple[RequestClass, int], RequestClass] = {}

    def environment_of(self, node_pool: NodePoolName) -> Environment:
        known = self.pools.get(node_pool)
        if known is not None:
            return known.environment
        return Environment.BUILD if node_pool == BUILD_POOL else Environment.TRAIN

    def of(self, spec: Request, user: UserName | None = None) -> RequestClass:
        """The class of a request, or of those of one user."""
        shape = spec.shape
        name = (
            shape.gpus, shape.gpu_memory, shape.cpus, shape.memory, spec.workers, spec.min_workers,
            spec.priority, spec.preemptible, spec.gpu_types, spec.node_pools, spec.require,
            spec.prefer, spec.environment, spec.groups, spec.throughputs,
            spec.spread_throughputs, spec.avoids, user,
        )  # fmt: skip
        request = self._classes.get(name)
        if request is None:
            make = self._make_of_groups if spec.groups else self._make
            request = self._classes[name] = make(spec)
        return request

    def within(self, request: RequestClass, partition: int, mask: NodeSet) -> RequestClass:
        """The same request, for the nodes `mask` of one partition only."""
        if not request.eligible & ~mask:
            return request
        found = self._within.get((request, partition))
        if found is None:
            found = self._within[request, partition] = self._make_within(request, partition, mask)
            self.fit_classes.setdefault(found.fit_class, found)
        return found

    def _make_within(self, request: RequestClass, partition: int, mask: NodeSet) -> RequestClass:
        alike = (request.fit_class, partition, "within")
        return replace(
            request,
            fit_class=self._fit_classes.setdefault(alike, len(self._fit_classes)),
            preferences=tuple([both for preferred in request.preferences if (both := preferred & mask)]),
            scopes=tuple(
                dict.fromkeys([(both, one_node) for nodes, one_node in request.scopes if (both := nodes & mask)])
            ),
            eligible=request.eligible & mask,
            groups=tuple([self.within(group, partition, mask) for group in request.groups]),
        )

    def refresh(self, changed: NodeSet, partitions: Sequence[NodeSet]) -> None:
        """Update the eligible nodes after those of the set `changed` have changed.

        `partitions` are the nodes of each partition. The classes stay the objects that they are.
        """
        self._types = self._by_type()
        for name, mask in self._masks.items():
            self._masks[name] = mask & ~changed | self._eligible(changed, *name)
        self.fit_classes.clear()
        self._fit_classes.clear()
        for request in self._classes.values():
            make = self._make_of_groups if request.spec.groups else self._make
            self._renew(request, make(request.spec))
        for (request, partition), found in self._within.items():
            self._renew(found, self._make_within(request, partition, partitions[partition]))

    def _renew(self, request: RequestClass, made: RequestClass) -> None:
        for each in fields(RequestClass):
            setattr(request, each.name, getattr(made, each.name))
        self.fit_classes[request.fit_class] = request

    def _by_type(self) -> dict[tuple[str | None, Milli], NodeSet]:
        """The nodes of each type, those with slow GPUs apart."""
        types: dict[tuple[str | None, Milli], NodeSet] = {}
        for node in self.nodes:
            name = node.spec.gpu_type, node.slowness
            types[name] = types.get(name, NO_NODES) | node.bit
        self._any_slow = any(slowness > ONE for _, slowness in types)
        return types

    def _make_of_groups(self, spec: Request) -> RequestClass:
        """The class of a gang of several groups. A required level applies to the whole gang, not to each group."""
        plain = replace(spec, groups=(), require=None)
        groups = tuple(
            self.of(replace(plain, shape=group.shape, workers=group.workers, min_workers=group.workers))
            for group in spec.groups
        )
        largest = max(groups, key=lambda group: (group.worker_amount, group.demand.cpus))
        eligible = NO_NODES
        if all(group.eligible for group in groups):
            for group in groups:
                eligible |= group.eligible
        scopes = [(eligible, False)] if spec.node_pools else self._fastest_first(eligible, spec)
        alike = (tuple(group.fit_class for group in groups), spec.require)
        request = replace(
            largest,
            fit_class=self._fit_classes.setdefault(alike, len(self._fit_classes)),
            workers=sum(group.workers for group in groups),
            gang_size=sum(group.gang_size for group in groups),
            gang_amount=sum(group.gang_amount for group in groups),
            require=spec.require,
            preferences=(eligible,) if eligible else (),
            scopes=_then_anywhere(scopes, eligible),
            eligible=eligible,
            spec=spec,
            groups=groups,
            demands=tuple(group.demand for group in groups for _ in range(group.gang_size)),
            gang_beside=(sum(group.gang_beside[0] for group in groups), sum(group.gang_beside[1] for group in groups)),
        )
        self.fit_classes.setdefault(request.fit_class, request)
        return request

    def _make(self, spec: Request) -> RequestClass:
        demand = demand_of(spec.shape)
        demand = self._demands.setdefault(demand, demand)
        masks = tuple([mask for mask in self._preferences(spec, demand) if mask])
        eligible = union(masks)
        scopes = _then_anywhere([each for mask in masks for each in self._fastest_first(mask, spec)], eligible)
        worker_amount = self._worker_amount(demand, eligible)
        spread = self._spreads(spec)
        alike = (demand, spec.min_workers, scopes, spec.require, spec.prefer, spread)
        fit_class = self._fit_classes.setdefault(alike, len(self._fit_classes))
        request = RequestClass(
            fit_class=fit_class,
            demand=demand,
            workers=max(spec.workers, spec.min_workers),
            gang_size=spec.min_workers,
            worker_amount=worker_amount,
            gang_amount=worker_amount * spec.min_workers,
            preemptible=spec.preemptible,
            priority=spec.priority,
            require=spec.require,
            prefer=spec.prefer,
            preferences=masks,
            scopes=scopes,
            eligible=eligible,
            spread=spread,
            spec=spec,
            gang_beside=(demand.cpus * spec.min_workers, demand.memory * spec.min_workers),
        )
        self.fit_classes.setdefault(fit_class, request)
        return request

    def _preferences(self, spec: Request, demand: Demand) -> list[NodeSet]:
        """The sets of nodes that are tried one after the other; those lent by the other environment come last."""
        own = spec.environment
        if spec.node_pools:
            sets = [self._mask(spec, demand, own, (name,)) for name in spec.node_pools]
        else:
            sets = [self._mask(spec, demand, own, None)]
        if self.lending and own is Environment.TRAIN and spec.preemptible and not spec.node_pools:
            sets.append(self._mask(spec, demand, Environment.BUILD, None))
        return sets

    def _fastest_first(self, nodes: NodeSet, spec: Request) -> list[Scope]:
        """A set of nodes as sets of like throughput; nobody knows of a type that was never tried that it is slower. The
        nodes with GPUs that are slower than their like have the throughput of these.

        A gang runs at the pace of its slowest worker, and often slower over several nodes. So it is tried on one node
        of a type, over several of that type, and over those of faster types, too, each when no faster way is left.
        """
        if not spec.throughputs and not self._any_slow:
            return [(nodes, False)]
        throughputs: dict[str | None, Milli] = dict(spec.throughputs)
        spread: dict[str | None, Milli] = dict(spec.spread_throughputs)
        best = max(throughputs.values(), default=ONE)
        single = max(spec.workers, spec.min_workers) == 1
        ways = list[tuple[Milli, bool, NodeSet]]()
        for (gpu_type, slowness), bits in self._types.items():
            if bits & nodes:
                throughput = throughputs.get(gpu_type, best)
                over_several = min(throughput, spread.get(gpu_type, throughput))
                ways.append((throughput * ONE // slowness, not single, bits & nodes))
                if not single:
                    ways.append((over_several * ONE // slowness, False, bits & nodes))
        ways.sort(key=lambda way: way[0], reverse=True)
        scopes, faster = list[Scope](), NO_NODES
        while ways:
            alike = [way for way in ways if way[0] * ONE >= ALIKE * ways[0][0]]
            ways = ways[len(alike) :]
            anywhere = union(bits for _, one_node, bits in alike if not one_node)
            together = union(bits for _, _, bits in alike)
            if together & ~anywhere:
                scopes.append((together, True))
            if anywhere:
                scopes.append((anywhere, False))
                if faster and not single:
                    scopes.append((faster | anywhere, False))
                faster |= anywhere
        return scopes

    def _mask(
        self, spec: Request, demand: Demand, environment: Environment, pools: tuple[NodePoolName, ...] | None
    ) -> NodeSet:
        name = (demand, environment, pools, spec.gpu_types, spec.avoids)
        if name not in self._masks:
            self._masks[name] = self._eligible(ALL_NODES, *name)
        return self._masks[name]

    def _eligible(
        self,
        among: NodeSet,
        demand: Demand,
        environment: Environment,
        pools: tuple[NodePoolName, ...] | None,
        gpu_types: tuple[GpuType, ...] | None,
        avoids: tuple[NodeName, ...],
    ) -> NodeSet:
        return union(
            node.bit
            for node in (self.nodes if among == ALL_NODES else self._nodes.each(among))
            if node.spec.schedulable
            and node.name not in avoids
            and (pools is None or node.spec.node_pool in pools)
            and self.environment_of(node.spec.node_pool) is environment
            and (gpu_types is None or node.spec.gpu_type in gpu_types)
            and _big_enough(node, demand)
        )

    def _worker_amount(self, demand: Demand, eligible: NodeSet) -> Milli:
        """What one worker counts; of a GPU that is shared the greatest share that it may come to."""
        if not demand.partial:
            return demand.whole * ONE
        shares = [demand.share_on(node.spec) for node in self.nodes if eligible & node.bit]
        return max(shares, default=demand.share or ONE)

    def _spreads(self, spec: Request) -> bool:
        names = spec.node_pools or [pool.name for pool in self.pools.values() if pool.environment is spec.environment]
        found = [self.pools[name] for name in names if name in self.pools]
        return bool(found) and found[0].placement is PlacementStyle.SPREAD


def _then_anywhere(scopes: Iterable[Scope], eligible: NodeSet) -> tuple[Scope, ...]:
    """These, and at last all eligible nodes together."""
    return tuple(dict.fromkeys([*scopes, (eligible, False)]))


def _big_enough(node: NodeState, demand: Demand) -> bool:
    spec = node.spec
    return (
        demand.whole <= spec.most_gpus
        and (not demand.whole or spec.gpu_parts <= 1)
        and (not demand.partial or (spec.gpus > 0 and demand.share_on(spec) <= ONE))
        and (spec.cpus is None or demand.cpus <= spec.cpus)
        and (spec.memory is None or demand.memory <= spec.memory)
    )
