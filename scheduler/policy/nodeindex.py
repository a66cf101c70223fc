"""All nodes, indexed by what is free on them.

Sets of nodes are the bits of one integer, so "free, of this type, in this rack, not tried in vain" is an `&` of four
sets. Every step has an inverse, and the state depends only on which workloads run where, not on the steps that led to
it. Trials are therefore cheap and plans repeatable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from scheduler.model import ONE, Milli, Node, NodeName, WorkerPlacement
from scheduler.policy.demands import Demand
from scheduler.policy.nodes import LATER, NOW, Key, NodeState, When
from scheduler.policy.sets import ALL_NODES, NO_NODES, NodeSet, places, union


@dataclass(slots=True)
class _Lacking:
    """The nodes found too short of CPUs or memory for a demand, as long as nothing more is released."""

    releases: int
    nodes: NodeSet = NO_NODES


class NodeIndex:
    """All nodes, indexed by what is free on them: `buckets[when][key]` is the set of nodes with that key.

    `all` also has the nodes that have left, which have no GPUs; `by_name` has those that are there. `models` has the
    sets of nodes that are alike when they are empty, each with its first node.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.all: list[NodeState] = []
        self.by_name: dict[NodeName, NodeState] = {}
        self.models: dict[tuple[object, ...], tuple[NodeState, NodeSet]] = {}
        self.types: set[str | None] = set()
        self.most_gpus = 0
        self.buckets: tuple[dict[Key, NodeSet], dict[Key, NodeSet]] = ({}, {})
        self.sharing = NO_NODES
        self.unnumbered = NO_NODES
        self.releases = 0
        self._orders: dict[tuple[When, int, int, bool], list[Key]] = {}
        self._without_beside: dict[tuple[Demand, When], _Lacking] = {}
        self._loaded: dict[int, NodeState] | None = None
        self.change(dict(enumerate(nodes)))

    def change(self, specs: Mapping[int, Node], gone: Iterable[int] = ()) -> None:
        """Take over the nodes of some places, new places in order last; those of the places `gone` have left."""
        for index in gone:
            node = self.all[index]
            del self.by_name[node.name]
            node.change(Node(node.name, gpus=0, schedulable=False))
            self._index(node)
        for index, spec in specs.items():
            if index == len(self.all):
                self._add(NodeState(index, spec))
            else:
                self.all[index].change(spec)
                self._index(self.all[index])
        self.unnumbered = union(node.bit for node in self.by_name.values() if node.spec.foreign.unnumbered)
        self.releases += 1
        self.most_gpus = max((node.spec.gpus for node in self.by_name.values()), default=0)
        self.types = {node.spec.gpu_type for node in self.by_name.values()}
        self.models = {}
        for node in self.by_name.values():
            spec = node.spec
            model = (spec.gpus, spec.gpu_memory, spec.cpus, spec.memory)
            first_one, bits = self.models.get(model, (node, NO_NODES))
            self.models[model] = first_one, bits | node.bit

    def _add(self, node: NodeState) -> None:
        self.all.append(node)
        self.by_name[node.name] = node
        for bucket, key in zip(self.buckets, node.keys, strict=True):
            bucket[key] = bucket.get(key, NO_NODES) | node.bit
        if node.foreign:
            self.sharing |= node.bit

    def assign_foreign(self) -> None:
        """Reassign the foreign use of GPUs without known numbers after workloads have come and gone."""
        for node in self.each(self.unnumbered):
            before = node.foreign
            node.assign_foreign()
            if node.foreign != before:
                self._index(node)

    # -- who stands where ---------------------------------------------------------------------------------

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Many workloads are placed: each of their nodes is indexed once, at the end."""
        loaded = self._loaded = {}
        try:
            yield
        finally:
            self._loaded = None
            for node in loaded.values():
                self._index(node)

    def occupy(self, worker: WorkerPlacement, demand: Demand) -> None:
        """A worker will run here (and its part is not free now either)."""
        node = self.by_name[worker.node]
        node.occupy(worker, demand)
        self._index(node)

    def vacate(self, worker: WorkerPlacement, demand: Demand) -> None:
        """The inverse of `occupy`."""
        node = self.by_name[worker.node]
        node.vacate(worker, demand)
        self.releases += 1
        self._index(node)

    def hold(self, worker: WorkerPlacement, demand: Demand) -> None:
        """A worker that leaves still holds its part now."""
        node = self.by_name[worker.node]
        node.hold(worker, demand)
        self._index(node)

    def leave(self, worker: WorkerPlacement, demand: Demand) -> None:
        """`vacate` and `hold`."""
        node = self.by_name[worker.node]
        node.vacate(worker, demand)
        node.hold(worker, demand)
        self.releases += 1
        self._index(node)

    def stay(self, worker: WorkerPlacement, demand: Demand) -> None:
        """The inverse of `leave`."""
        node = self.by_name[worker.node]
        node.unhold(worker, demand)
        node.occupy(worker, demand)
        self.releases += 1
        self._index(node)

    def unhold(self, worker: WorkerPlacement, demand: Demand) -> None:
        """The inverse of `hold`."""
        node = self.by_name[worker.node]
        node.unhold(worker, demand)
        self.releases += 1
        self._index(node)

    @contextmanager
    def without(self, workers: Iterable[WorkerPlacement]) -> Iterator[None]:
        """Nobody gets what these would hold, meanwhile, whoever holds it now."""
        claims: dict[NodeName, dict[int, Milli]] = {}
        for worker in workers:
            if worker.node in self.by_name:
                by_gpu = claims.setdefault(worker.node, {})
                for gpu in worker.gpus:
                    by_gpu[gpu] = by_gpu.get(gpu, 0) + worker.share
        before = [(self.by_name[name], self.by_name[name].withhold(by_gpu)) for name, by_gpu in claims.items()]
        for node, _ in before:
            self._index(node)
        try:
            yield
        finally:
            for node, (node.foreign, node.every) in before:
                self.releases += 1
                self._index(node)

    def _index(self, node: NodeState) -> None:
        node.version += 1
        if self._loaded is not None:
            self._loaded[node.index] = node
            return
        now, later = node.keys
        key = node.key(LATER)
        if key != later:
            self._move(node, LATER, key)
        if node.releasing:
            key = node.key(NOW)
        if key != now:
            self._move(node, NOW, key)
        if node.shares or node.releasing_shares or node.foreign:
            self.sharing |= node.bit
        elif self.sharing & node.bit:
            self.sharing ^= node.bit

    def _move(self, node: NodeState, when: When, key: Key) -> None:
        """Put a node into another bucket."""
        buckets = self.buckets[when]
        buckets[node.keys[when]] ^= node.bit
        buckets[key] = buckets.get(key, NO_NODES) | node.bit
        node.keys[when] = key

    # -- search -------------------------------------------------------------------------------------------

    def order(self, when: When, whole: int, spread: bool) -> list[Key]:
        """The buckets with `whole` free GPUs or more, best first: in one link group, then fullest (or emptiest)
        first."""
        buckets = self.buckets[when]
        name = (when, len(buckets), whole, spread)
        found = self._orders.get(name)
        if found is None:
            turn = -1 if spread else 1
            found = sorted(
                (key for key in buckets if key[0] >= whole),
                key=lambda key: (key[1] < whole, turn * key[0], turn * key[1]),
            )
            self._orders[name] = found
        return found

    def each(self, bits: NodeSet) -> Iterator[NodeState]:
        """The nodes of a set, the first one first."""
        nodes = self.all
        for place in places(bits):
            yield nodes[place]

    def best(self, demand: Demand, mask: NodeSet, when: When, spread: bool) -> NodeState | None:
        """The best node of `mask` for one worker."""
        if demand.partial:
            for node in self.each(self.sharing & mask):
                if node.takes_beside(demand, when) and node.shared_gpu(demand.share_on(node.spec), when) is not None:
                    return node
        buckets = self.buckets[when]
        order = self.order(when, demand.whole or (1 if demand.partial else 0), spread)
        if not demand.cpus and not demand.memory and not demand.gpu_memory:
            for key in order:
                bits = buckets[key] & mask
                if bits:
                    return self.all[(bits & -bits).bit_length() - 1]
            return None
        lacking = self._lacking(demand, when)
        for key in order:
            for node in self.each(buckets[key] & mask & ~lacking.nodes):
                if node.takes(demand, when):
                    return node
                lacking.nodes |= node.bit
        return None

    def together(self, demand: Demand, count: int, mask: NodeSet, when: When) -> NodeState | None:
        """The best node of `mask` for `count` workers that must run on one node."""
        if count == 1:
            return self.best(demand, mask, when, False)
        if not demand.partial:
            many = demand.times(count)
            return self.best(many, mask, when, False) if many.whole <= self.most_gpus else None
        fitting = [node for node in self.each(mask) if node.count(demand, when, count) >= count]
        return min(fitting, key=lambda node: (node.keys[when][0], node.index), default=None)

    def _lacking(self, demand: Demand, when: When) -> _Lacking:
        """The nodes found too short of CPUs or memory for a demand; valid until something is released."""
        lacking = self._without_beside.get((demand, when))
        if lacking is None or lacking.releases != self.releases:
            lacking = self._without_beside[demand, when] = _Lacking(self.releases)
        return lacking

    def left_over(self, mask: NodeSet = ALL_NODES) -> Milli:
        """What is free later in nodes of `mask`, the parts of shared GPUs included."""
        whole = self.free_gpus(mask, LATER)
        if not self.sharing & mask:
            return whole
        parts = [max(0, node.share_free(gpu, LATER)) for node in self.each(self.sharing & mask) for gpu in node.parts()]
        return whole + sum(parts)

    def all_taken(self) -> bool:
        """Whether no GPU is free later, not even in part."""
        return not self.sharing and not self.free_gpus(ALL_NODES, LATER)

    def free_gpus(self, mask: NodeSet, when: When = NOW) -> Milli:
        """The whole GPUs that are free in nodes of `mask`."""
        return sum([(bits & mask).bit_count() * key[0] for key, bits in self.buckets[when].items() if key[0]]) * ONE
