"""The conversion of the cluster's nodes into the pool's. Pure: the input is a node object and its foreign use; the
output is a `Node`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.engines.kubernetes.names import NODE_POOL
from scheduler.engines.kubernetes.podviews import Amounts, GpuResources, Object
from scheduler.engines.kubernetes.quantities import count, mib, milli
from scheduler.model import (
    ONE,
    Environment,
    ForeignUse,
    GpuType,
    Isolation,
    MiB,
    Milli,
    Node,
    NodeName,
    NodePoolName,
    Pool,
)
from scheduler.telemetry.nvml import short_name

PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
"""GPU feature discovery's labels: the product (`NVIDIA-A100-SXM4-80GB`) and the MiB of one GPU."""

SHARING = "nvidia.com/gpu.sharing-strategy"
"""Its label for how the device plugin shares a GPU: `mps`, `time-slicing` or `none`."""

TOPOLOGY: Mapping[str, str] = {
    "zone": "topology.kubernetes.io/zone",
    "rack": "topology.kubernetes.io/rack",
    "spine": "network.topology.nvidia.com/spine",
    "leaf": "network.topology.nvidia.com/leaf",
    "clique": "nvidia.com/gpu.clique",
}
"""The labels of a node that name its domain at each level of the topology."""

Toleration = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of the cluster. `ready`: it is reachable; `open`: it also accepts our pods. `withheld`: how many GPUs its
    device plugin does not offer, for example because they fail. `part` is the resource by which it offers parts of
    GPUs; `gpu_parts` as in `Node`; `product` its label of that name."""

    name: str
    gpus: int
    cpus: Milli
    memory: MiB
    ready: bool
    open: bool
    gpu_type: GpuType | None = None
    gpu_memory: MiB | None = None
    pool: NodePoolName | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    part: str = ""
    gpu_parts: int = 1
    isolation: Isolation = Isolation.UNKNOWN
    withheld: int = 0
    product: str = ""

    @property
    def memory_limit(self) -> MiB | None:
        """What a part of a GPU may use of its memory, where that has to be set for each pod."""
        if self.isolation is not Isolation.MEMORY_LIMIT or self.gpu_memory is None:
            return None
        return self.gpu_memory // self.gpu_parts


def node_view(
    node: Object, offers: GpuResources, topology: Mapping[str, str], tolerations: Iterable[Toleration]
) -> NodeView:
    """The part of a node object that is kept."""
    spec, status = node.get("spec", {}), node.get("status", {})
    labels = node["metadata"].get("labels") or {}
    has = status.get("allocatable") or {}
    product, memory = labels.get(PRODUCT), labels.get(MEMORY, "")
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ())
    taints = spec.get("taints") or ()
    gpus, part = count(has.get(offers.whole, 0)), ""
    gpu_parts = 1
    if not gpus:  # a node offers whole GPUs, or parts of one kind
        part = next((name for name in sorted(offers.parts) if count(has.get(name, 0))), "")
        gpu_parts = offers.parts.get(part, gpu_parts)
        gpus = count(has.get(part, 0)) // gpu_parts if part else 0
    isolation = _isolation(part, labels.get(SHARING, ""))
    if isolation is Isolation.TIME_SLICING and offers.memory_limits and memory.isdecimal():
        isolation = Isolation.MEMORY_LIMIT
    return NodeView(
        name=node["metadata"]["name"],
        gpus=gpus,
        cpus=milli(has.get("cpu", 0)),
        memory=mib(has.get("memory", 0)),
        ready=ready,
        open=ready and not spec.get("unschedulable") and takes(taints, tuple(tolerations)),
        gpu_type=GpuType(short_name(product.removesuffix("-SHARED"))) if product else None,
        gpu_memory=int(memory) if memory.isdecimal() else None,
        pool=labels.get(NODE_POOL),
        labels={level: labels[label] for level, label in topology.items() if label in labels},
        part=part,
        gpu_parts=gpu_parts,
        isolation=isolation,
        withheld=0 if part else max(0, count((status.get("capacity") or {}).get(offers.whole, 0)) - gpus),
        product=product or "",
    )


def _isolation(part: str, sharing: str) -> Isolation:
    if "/mig-" in part:
        return Isolation.MIG
    return Isolation(sharing) if part and sharing in (Isolation.MPS, Isolation.TIME_SLICING) else Isolation.UNKNOWN


def takes(taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Toleration]) -> bool:
    """Whether a node with these taints accepts a pod with these tolerations."""
    return all(
        taint.get("effect") == "PreferNoSchedule" or any(_tolerates(each, taint) for each in tolerations)
        for taint in taints
    )


def _tolerates(toleration: Toleration, taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint.get("key")
    return toleration.get("key") == taint.get("key") and toleration.get("value", "") == taint.get("value", "")


def node_pool_of(view: NodeView, pool: Pool) -> NodePoolName | None:
    """The node pool of a node: the one in its label, else the first for training if it has GPUs; None if the pool does
    not use it."""
    if view.pool is not None:
        return view.pool if any(view.pool == each.name for each in pool.node_pools) else None
    return unlabelled_pool(pool) if view.gpus else None


def unlabelled_pool(pool: Pool) -> NodePoolName | None:
    """The node pool of nodes with GPUs and without the label."""
    return next((each.name for each in pool.node_pools if each.environment is Environment.TRAIN), None)


STILL_OFFERED = "The device plugin still offers it, so the node gets no more work."

Failing = tuple[tuple[int, str], ...]
"""Numbers of GPUs that fail, and why."""


def node_of(view: NodeView, node_pool: NodePoolName, used: Amounts, failing: Failing = ()) -> Node:
    """The node of the pool, with `used` as its foreign use.

    The device plugin withholds the failing GPUs that it has noticed itself. While it offers another failing one, any
    pod may be given it: the node gets no more work.
    """
    gpus = view.gpus + (view.withheld if failing else 0)
    offered = len(failing) > view.withheld
    if offered:
        failing = tuple((gpu, f"{reason} {STILL_OFFERED}") for gpu, reason in failing)
    whole = (min(used.gpus, view.gpus) + max(0, gpus - view.gpus - len(failing))) * ONE
    parts = min(used.parts, view.gpus * view.gpu_parts) * (ONE // view.gpu_parts) if view.part else 0
    return Node(
        name=NodeName(view.name),
        gpus=gpus,
        gpu_type=view.gpu_type,
        gpu_memory=view.gpu_memory,
        cpus=view.cpus,
        memory=view.memory,
        node_pool=node_pool,
        labels=view.labels,
        schedulable=view.open and not offered,
        foreign=ForeignUse(
            tuple((gpu, ONE) for gpu, _ in failing),
            unnumbered=parts if view.part else whole,
            cpus=used.cpus,
            memory=used.memory,
        ),
        failing=failing,
        gpu_parts=view.gpu_parts,
        isolation=view.isolation,
    )
