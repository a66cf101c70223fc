"""The state of each node, indexed by what is free on it.

A node has two sides. `LATER` is its state once the plan is carried out. `NOW` is what can be used at once: what is free
later and not still held by a workload that is being stopped. Sets of nodes are the bits of one integer, so "free, of
this type, in this rack, not tried in vain" is an `&` of four sets. Every step has an inverse, and the state depends
only on which workloads run where, not on the steps that led to it. Trials are therefore cheap and plans repeatable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NewType

from scheduler.model import ONE, MiB, Milli, Node, NodeName, WorkerPlacement
from scheduler.policy.demands import UNBOUNDED, Demand
from scheduler.policy.gpulinks import best_group, choose, gpus_of
from scheduler.policy.sets import ALL_NODES, FIRST_GPU, FIRST_NODE, NO_GPUS, NO_NODES, GpuSet, NodeSet, union

When = NewType("When", int)
"""Which side of a node is meant: `NOW`, or `LATER`, once the plan is carried out. A number, since lists are indexed by
it."""

NOW, LATER = When(0), When(1)

Key = tuple[int, int]
"""How many whole GPUs a node has free, and how many of them in its best link group."""


class NodeState:
    """One node: what is taken on it (later), and what releasing workloads still hold (now)."""

    __slots__ = (
        "bit", "cpus", "every", "foreign", "gpu_links", "index", "keys", "memory", "name", "releasing",
        "releasing_cpus", "releasing_memory", "releasing_shares", "shares", "slow", "slowness", "spec", "taken",
    )  # fmt: skip

    def __init__(self, index: int, spec: Node) -> None:
        self.index = index
        self.bit = FIRST_NODE << index
        self.name = spec.name
        self.taken = NO_GPUS
        self.releasing = NO_GPUS
        self.shares: dict[int, Milli] = {}
        self.releasing_shares: dict[int, Milli] = {}
        self.releasing_cpus = 0
        self.releasing_memory = 0
        self.cpus, self.memory = _beside(spec)
        self._declare(spec)
        self.keys: list[Key] = [self.key(NOW), self.key(LATER)]

    def change(self, spec: Node) -> None:
        """The node is declared differently, or others use more or less of it. Workloads that stand on it stay."""
        (cpus, memory), (cpus_before, memory_before) = _beside(spec), _beside(self.spec)
        self.cpus += cpus - cpus_before
        self.memory += memory - memory_before
        self._declare(spec)

    def _declare(self, spec: Node) -> None:
        self.spec = spec
        self.gpu_links = tuple([GpuSet(sum(1 << gpu for gpu in group)) for group in spec.gpu_links])
        self.slow = GpuSet(sum(1 << gpu for gpu, _ in spec.slowness))
        self.slowness = max([slowness for _, slowness in spec.slowness], default=ONE)
        self.assign_foreign()

    def assign_foreign(self) -> None:
        """Find which GPUs others use; `every` is the rest."""
        used = self.spec.foreign
        foreign = used.by_gpu(self.spec.gpus, gpus_of(self.taken | self.releasing) if used.unnumbered else ())
        self.foreign = foreign
        self.every = GpuSet((1 << self.spec.gpus) - 1 & ~sum([1 << gpu for gpu in foreign]))

    def parts(self) -> Iterable[int]:
        """The GPUs of which a part may be in use."""
        if not self.foreign:
            return self.shares.keys() | self.releasing_shares.keys()
        return self.shares.keys() | self.releasing_shares.keys() | self.foreign.keys()

    def free(self, when: When) -> GpuSet:
        """The wholly free GPUs, as bits."""
        return self.every & ~(self.taken if when is LATER else self.taken | self.releasing)

    def key(self, when: When) -> Key:
        free = self.free(when)
        count = free.bit_count()
        return count, best_group(self.gpu_links, free) if self.gpu_links else count

    def share_free(self, gpu: int, when: When) -> Milli:
        """How much of one GPU is free."""
        used = self.shares.get(gpu, ONE) if self.taken >> gpu & 1 else 0
        if when is NOW and self.releasing >> gpu & 1:
            used += self.releasing_shares.get(gpu, ONE)
        if self.foreign:
            used += self.foreign.get(gpu, 0)
        return ONE - used

    def shared_gpu(self, share: Milli, when: When) -> int | None:
        """The fullest GPU that is shared already and has `share` left."""
        best = None
        for gpu in sorted(self.parts()):
            free = self.share_free(gpu, when)
            if share <= free < ONE and (best is None or free < best[0]):
                best = (free, gpu)
        return None if best is None else best[1]

    def takes_beside(self, demand: Demand, when: When) -> bool:
        """Whether the CPUs and the memory for one more worker are there."""
        cpus, memory = self.cpus, self.memory
        if when is NOW:
            cpus, memory = cpus - self.releasing_cpus, memory - self.releasing_memory
        return (not demand.cpus or demand.cpus <= cpus) and (not demand.memory or demand.memory <= memory)

    def takes_gpus(self, demand: Demand, when: When) -> bool:
        """Whether the GPUs for one more worker are there."""
        if demand.whole:
            return self.keys[when][0] >= demand.whole
        if demand.partial:
            share = demand.share_on(self.spec)
            return share <= ONE and (self.keys[when][0] > 0 or self.shared_gpu(share, when) is not None)
        return True

    def takes(self, demand: Demand, when: When) -> bool:
        return self.takes_beside(demand, when) and self.takes_gpus(demand, when)

    def count(self, demand: Demand, when: When, most: int) -> int:
        """How many workers fit, up to `most`."""
        if demand.whole:
            most = min(most, self.keys[when][0] // demand.whole)
        elif demand.partial:
            share = demand.share_on(self.spec)
            if share > ONE:
                return 0
            free = self.free(when)
            fits = free.bit_count() * (ONE // share)
            for gpu in self.parts():
                if not free >> gpu & 1:
                    fits += max(0, self.share_free(gpu, when)) // share
            most = min(most, fits)
        cpus, memory = self.cpus, self.memory
        if when is NOW:
            cpus, memory = cpus - self.releasing_cpus, memory - self.releasing_memory
        if demand.cpus:
            most = min(most, cpus // demand.cpus)
        if demand.memory:
            most = min(most, memory // demand.memory)
        return max(most, 0)

    def seat(self, demand: Demand, when: When) -> WorkerPlacement:
        """The GPUs that a worker gets here; the node must take it."""
        if demand.whole:
            free = self._fast(self.free(when), demand.whole)
            return WorkerPlacement(self.name, gpus_of(choose(self.gpu_links, free, demand.whole)))
        if demand.partial:
            share = demand.share_on(self.spec)
            gpu = self.shared_gpu(share, when)
            if gpu is None:
                gpu = choose(self.gpu_links, self._fast(self.free(when), 1), 1).bit_length() - 1
            return WorkerPlacement(self.name, (gpu,), share)
        return WorkerPlacement(self.name)

    def _fast(self, free: GpuSet, count: int) -> GpuSet:
        """Of the free GPUs those that are not slow, if they are enough."""
        fast = free & ~self.slow
        return fast if fast.bit_count() >= count else free


def _beside(spec: Node) -> tuple[Milli, MiB]:
    """The CPUs and the memory that others leave of a node."""
    cpus = UNBOUNDED if spec.cpus is None else spec.cpus
    memory = UNBOUNDED if spec.memory is None else spec.memory
    return cpus - spec.foreign.cpus, memory - spec.foreign.memory


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
                self.all.append(node := NodeState(index, spec))
                for bucket, key in zip(self.buckets, node.keys, strict=True):
                    bucket[key] = bucket.get(key, NO_NODES) | node.bit
                self.by_name[spec.name] = node
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

    def assign_foreign(self) -> None:
        """Assign again what others use of GPUs without known numbers, since workloads have come and gone."""
        for node in self.each(self.unnumbered):
            before = node.foreign
            node.assign_foreign()
            if node.foreign != before:
                self._index(node)

    # -- who stands where ---------------------------------------------------------------------------------

    def occupy(self, worker: WorkerPlacement, demand: Demand) -> None:
        """A worker stands here later (and its part isn't free now either)."""
        node = self.by_name[worker.node]
        node.cpus -= demand.cpus
        node.memory -= demand.memory
        if worker.share < ONE:
            for gpu in worker.gpus:
                node.shares[gpu] = node.shares.get(gpu, 0) + worker.share
                node.taken |= FIRST_GPU << gpu
        else:
            for gpu in worker.gpus:
                node.taken |= FIRST_GPU << gpu
        self._index(node)

    def vacate(self, worker: WorkerPlacement, demand: Demand) -> None:
        """The inverse of `occupy`."""
        node = self.by_name[worker.node]
        node.cpus += demand.cpus
        node.memory += demand.memory
        for gpu in worker.gpus:
            if worker.share < ONE:
                left = node.shares[gpu] - worker.share
                if left:
                    node.shares[gpu] = left
                    continue
                del node.shares[gpu]
            node.taken &= ~(FIRST_GPU << gpu)
        self.releases += 1
        self._index(node)

    def hold(self, worker: WorkerPlacement, demand: Demand) -> None:
        """A worker that leaves still holds its part now."""
        node = self.by_name[worker.node]
        node.releasing_cpus += demand.cpus
        node.releasing_memory += demand.memory
        for gpu in worker.gpus:
            node.releasing |= FIRST_GPU << gpu
            if worker.share < ONE:
                node.releasing_shares[gpu] = node.releasing_shares.get(gpu, 0) + worker.share
        self._index(node)

    def unhold(self, worker: WorkerPlacement, demand: Demand) -> None:
        """The inverse of `hold`."""
        node = self.by_name[worker.node]
        node.releasing_cpus -= demand.cpus
        node.releasing_memory -= demand.memory
        for gpu in worker.gpus:
            if worker.share < ONE:
                left = node.releasing_shares[gpu] - worker.share
                if left:
                    node.releasing_shares[gpu] = left
                    continue
                del node.releasing_shares[gpu]
            node.releasing &= ~(FIRST_GPU << gpu)
        self.releases += 1
        self._index(node)

    def _index(self, node: NodeState) -> None:
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
        while bits:
            low = bits & -bits
            bits ^= low
            yield nodes[low.bit_length() - 1]

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
        """The best node of `mask` for `count` workers that have to stand on one node."""
        if count == 1:
            return self.best(demand, mask, when, False)
        if not demand.partial:
            many = demand.times(count)
            return self.best(many, mask, when, False) if many.whole <= self.most_gpus else None
        fitting = [node for node in self.each(mask) if node.count(demand, when, count) >= count]
        return min(fitting, key=lambda node: (node.keys[when][0], node.index), default=None)

    def _lacking(self, demand: Demand, when: When) -> _Lacking:
        """The nodes found too short of CPUs or memory for a demand, which hold until something is released."""
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
