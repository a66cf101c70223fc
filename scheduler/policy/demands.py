"""What one worker needs, in the form that the search for nodes uses.

A demand is a count of whole GPUs, or a share of one GPU, or memory on one GPU (a share that depends on the node), or
none of these; in each case with CPUs and memory. Equal demands are one object, so each demand is judged once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.model import ONE, MiB, Milli, Node, Shape, WorkerPlacement

UNBOUNDED = 1 << 60
"""Stands for "no bound" in sums and comparisons of amounts."""


Beside = tuple[Milli, MiB]
"""CPUs and memory."""


@dataclass(frozen=True, slots=True)
class Demand:
    """`whole` GPUs, or a `share` of one, or `gpu_memory` on one; `cpus` and `memory` are 0 where nothing is asked."""

    whole: int = 0
    share: Milli = 0
    gpu_memory: MiB = 0
    cpus: Milli = 0
    memory: MiB = 0

    @property
    def partial(self) -> bool:
        return bool(self.share or self.gpu_memory)

    def share_on(self, node: Node) -> Milli:
        """The share of one GPU of `node` that this takes; above one GPU where it can't be had there."""
        if not self.gpu_memory:
            share = self.share
        elif not node.gpu_memory:
            return UNBOUNDED
        else:
            share = -(-self.gpu_memory * ONE // node.gpu_memory)
        if not node.gpu_parts:
            return share
        return node.share_for(share) or UNBOUNDED

    def times(self, count: int) -> Demand:
        """What `count` such workers need on one node. Only for whole GPUs."""
        return Demand(whole=self.whole * count, cpus=self.cpus * count, memory=self.memory * count)


GPUS_ONLY = Demand()
"""Of somebody whose CPUs and memory are counted already."""


def demand_of(shape: Shape) -> Demand:
    cpus, memory = shape.cpus or 0, shape.memory or 0
    if shape.gpu_memory:
        return Demand(gpu_memory=shape.gpu_memory, cpus=cpus, memory=memory)
    if 0 < shape.gpus < ONE:
        return Demand(share=shape.gpus, cpus=cpus, memory=memory)
    return Demand(whole=-(-shape.gpus // ONE), cpus=cpus, memory=memory)


def beside(demands: Iterable[Demand]) -> Beside:
    """The CPUs and the memory of all these."""
    cpus = memory = 0
    for demand in demands:
        cpus += demand.cpus
        memory += demand.memory
    return cpus, memory


def amount_of(placement: tuple[WorkerPlacement, ...]) -> Milli:
    """The amount of GPUs that a placement holds."""
    return sum([len(worker.gpus) * worker.share for worker in placement])
