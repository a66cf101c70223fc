"""One node: what is taken on it and what is free.

A node has two sides. `LATER` is its state once the plan is carried out. `NOW` is what can be used at once: what is free
later and not still held by a workload that is being stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NewType

from scheduler.model import ONE, MiB, Milli, Node, WorkerPlacement
from scheduler.policy.demands import UNBOUNDED, Demand
from scheduler.policy.gpulinks import best_group, choose, gpus_of
from scheduler.policy.sets import ALL_GPUS, FIRST_GPU, FIRST_NODE, NO_GPUS, GpuSet

When = NewType("When", int)
"""Which side of a node is meant: `NOW`, or `LATER`, once the plan is carried out. A number, since lists are indexed by
it."""

NOW, LATER = When(0), When(1)

Key = tuple[int, int]
"""How many whole GPUs a node has free, and how many of them in its best link group."""


class NodeState:
    """One node: what is taken on it (later), what releasing workloads still hold (now), and how often that changed."""

    __slots__ = (
        "bit", "cpus", "every", "foreign", "gpu_links", "index", "keys", "memory", "name", "releasing",
        "releasing_cpus", "releasing_memory", "releasing_shares", "shares", "slow", "slowness", "spec", "taken",
        "version",
    )  # fmt: skip

    def __init__(self, index: int, spec: Node) -> None:
        self.index = index
        self.version = 0
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
        key = self.key(NOW)
        self.keys: list[Key] = [key, key]

    def change(self, spec: Node) -> None:
        """The node is declared differently, or its foreign use has changed. Its workloads stay."""
        (cpus, memory), (cpus_before, memory_before) = _beside(spec), _beside(self.spec)
        self.cpus += cpus - cpus_before
        self.memory += memory - memory_before
        self._declare(spec)

    def _declare(self, spec: Node) -> None:
        self.spec = spec
        self.gpu_links = tuple([GpuSet(sum([1 << gpu for gpu in group])) for group in spec.gpu_links])
        self.slow, self.slowness = NO_GPUS, ONE
        if spec.slowness:
            self.slow = GpuSet(sum([1 << gpu for gpu, _ in spec.slowness]))
            self.slowness = max([slowness for _, slowness in spec.slowness])
        self.assign_foreign()

    def assign_foreign(self) -> None:
        """Find which GPUs others use; `every` is the rest."""
        used, every = self.spec.foreign, (1 << self.spec.gpus) - 1
        self.foreign: Mapping[int, Milli] = {}
        if used.gpus or used.unnumbered:
            held: Collection[int] = gpus_of(self.taken | self.releasing) if used.unnumbered else ()
            if self.spec.gpu_parts > 1:
                held = {gpu: self.shares.get(gpu, 0) + self.releasing_shares.get(gpu, 0) for gpu in held}
            self.foreign = used.by_gpu(self.spec.gpus, held)
            every &= ~sum([1 << gpu for gpu in self.foreign])
        self.every = GpuSet(every)

    def withhold(self, claims: Mapping[int, Milli]) -> tuple[Mapping[int, Milli], GpuSet]:
        """Treat these parts of GPUs as in use by others; returns the foreign use and the usable GPUs until then."""
        before = self.foreign, self.every
        self.foreign = {gpu: self.foreign.get(gpu, 0) + claims.get(gpu, 0) for gpu in self.foreign.keys() | claims}
        self.every &= ~GpuSet(sum([1 << gpu for gpu in claims]))
        return before

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

    def group_for(self, demand: Demand, when: When, count: int) -> GpuSet:
        """The free GPUs for `count` workers in the link group that they fit most tightly; all where they fit none."""
        whole = demand.whole * count
        if count == 1 or not whole or not self.gpu_links:
            return ALL_GPUS
        free = self._fast(self.free(when), whole)
        return choose(self.gpu_links, free, whole) if best_group(self.gpu_links, free) >= whole else ALL_GPUS

    def collide(self, one: WorkerPlacement, other: WorkerPlacement) -> bool:
        """Whether two workers can't hold their GPUs at the same time."""
        return any(
            gpu in other.gpus and (one.share == ONE or other.share == ONE or self.share_free(gpu, NOW) < 0)
            for gpu in one.gpus
        )

    def seat(self, demand: Demand, when: When, among: GpuSet = ALL_GPUS) -> WorkerPlacement:
        """The GPUs that a worker gets here, whole ones `among` these; the node must take it."""
        if demand.whole:
            free = self._fast(self.free(when) & among, demand.whole)
            return WorkerPlacement(self.name, gpus_of(choose(self.gpu_links, free, demand.whole)))
        if demand.partial:
            share = demand.share_on(self.spec)
            gpu = self.shared_gpu(share, when)
            if gpu is None:
                gpu = choose(self.gpu_links, self._fast(self.free(when), 1), 1).bit_length() - 1
            return WorkerPlacement(self.name, (gpu,), share)
        return WorkerPlacement(self.name)

    def occupy(self, worker: WorkerPlacement, demand: Demand) -> None:
        """A worker will run here (and its part is not free now either)."""
        self.cpus -= demand.cpus
        self.memory -= demand.memory
        if worker.share < ONE:
            for gpu in worker.gpus:
                self.shares[gpu] = self.shares.get(gpu, 0) + worker.share
                self.taken |= FIRST_GPU << gpu
        else:
            for gpu in worker.gpus:
                self.taken |= FIRST_GPU << gpu

    def vacate(self, worker: WorkerPlacement, demand: Demand) -> None:
        """The inverse of `occupy`."""
        self.cpus += demand.cpus
        self.memory += demand.memory
        for gpu in worker.gpus:
            if worker.share < ONE:
                left = self.shares[gpu] - worker.share
                if left:
                    self.shares[gpu] = left
                    continue
                del self.shares[gpu]
            self.taken &= ~(FIRST_GPU << gpu)

    def hold(self, worker: WorkerPlacement, demand: Demand) -> None:
        """A worker that leaves still holds its part now."""
        self.releasing_cpus += demand.cpus
        self.releasing_memory += demand.memory
        for gpu in worker.gpus:
            self.releasing |= FIRST_GPU << gpu
            if worker.share < ONE:
                self.releasing_shares[gpu] = self.releasing_shares.get(gpu, 0) + worker.share

    def unhold(self, worker: WorkerPlacement, demand: Demand) -> None:
        """The inverse of `hold`."""
        self.releasing_cpus -= demand.cpus
        self.releasing_memory -= demand.memory
        for gpu in worker.gpus:
            if worker.share < ONE:
                left = self.releasing_shares[gpu] - worker.share
                if left:
                    self.releasing_shares[gpu] = left
                    continue
                del self.releasing_shares[gpu]
            self.releasing &= ~(FIRST_GPU << gpu)

    def _fast(self, free: GpuSet, count: int) -> GpuSet:
        """Of the free GPUs those that are not slow, if they are enough."""
        fast = free & ~self.slow
        return fast if fast.bit_count() >= count else free


def _beside(spec: Node) -> tuple[Milli, MiB]:
    """The CPUs and the memory that others leave of a node."""
    cpus = UNBOUNDED if spec.cpus is None else spec.cpus
    memory = UNBOUNDED if spec.memory is None else spec.memory
    return cpus - spec.foreign.cpus, memory - spec.foreign.memory
