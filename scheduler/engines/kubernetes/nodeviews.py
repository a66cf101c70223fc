"""The nodes of a pool, made of those of the cluster. Pure: a node object and what others use of it in, a `Node` out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.engines.kubernetes.names import NODE_POOL
from scheduler.engines.kubernetes.podviews import Amounts, Object
from scheduler.engines.kubernetes.quantities import count, mib, milli
from scheduler.model import ONE, Environment, ForeignUse, MiB, Milli, Node, NodeName, Pool
from scheduler.telemetry.nvml import short_name

PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
"""GPU feature discovery's labels: `NVIDIA-A100-SXM4-80GB`, and the MiB of one GPU."""

TOPOLOGY: Mapping[str, str] = {
    "zone": "topology.kubernetes.io/zone",
    "rack": "topology.kubernetes.io/rack",
    "spine": "network.topology.nvidia.com/spine",
    "leaf": "network.topology.nvidia.com/leaf",
    "clique": "nvidia.com/gpu.clique",
}
"""The label of a node that names its domain of each level of the topology."""

Toleration = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of the cluster. `ready`: it can be reached; `open`: and it takes pods of ours."""

    name: str
    gpus: int
    cpus: Milli
    memory: MiB
    ready: bool
    open: bool
    gpu_type: str | None = None
    gpu_memory: MiB | None = None
    pool: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def node_view(
    node: Object, gpu_resource: str, topology: Mapping[str, str], tolerations: Iterable[Toleration]
) -> NodeView:
    """What is kept of a node."""
    spec, status = node.get("spec", {}), node.get("status", {})
    labels = node["metadata"].get("labels") or {}
    has = status.get("allocatable") or {}
    product, memory = labels.get(PRODUCT), labels.get(MEMORY, "")
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ())
    taints = spec.get("taints") or ()
    return NodeView(
        name=node["metadata"]["name"],
        gpus=count(has.get(gpu_resource, 0)),
        cpus=milli(has.get("cpu", 0)),
        memory=mib(has.get("memory", 0)),
        ready=ready,
        open=ready and not spec.get("unschedulable") and takes(taints, tuple(tolerations)),
        gpu_type=short_name(product) if product else None,
        gpu_memory=int(memory) if memory.isdecimal() else None,
        pool=labels.get(NODE_POOL),
        labels={level: labels[label] for level, label in topology.items() if label in labels},
    )


def takes(taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Toleration]) -> bool:
    """Whether a node with these taints takes a pod with these tolerations."""
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


def node_pool_of(view: NodeView, pool: Pool) -> str | None:
    """The node pool that a node belongs to: the one that its label names, else the first for training where it has
    GPUs. None: it is not ours to use."""
    if view.pool is not None:
        return view.pool if any(view.pool == each.name for each in pool.node_pools) else None
    training = (each.name for each in pool.node_pools if each.environment is Environment.TRAIN)
    return next(training, None) if view.gpus else None


def node_of(view: NodeView, node_pool: str, used: Amounts) -> Node:
    """A node of the pool, of which others use that much."""
    return Node(
        name=NodeName(view.name),
        gpus=view.gpus,
        gpu_type=view.gpu_type,
        gpu_memory=view.gpu_memory,
        cpus=view.cpus,
        memory=view.memory,
        node_pool=node_pool,
        labels=view.labels,
        schedulable=view.open,
        foreign=ForeignUse(unnumbered=min(used.gpus, view.gpus) * ONE, cpus=used.cpus, memory=used.memory),
    )
