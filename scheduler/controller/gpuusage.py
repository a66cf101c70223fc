"""How busy the GPUs of workloads are, as numbered in their placements.

What must hold where the engine picks GPUs, so that these numbers only count them:
- The processes on a GPU tell whose it is. A workload may have any GPU of its node on which no other one has a process.
- A workload's GPUs count as busy as the busiest that it may have, unless it has processes on as many as it holds.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from scheduler.model import GpuKey, Node, NodeName, Workload, WorkloadId

if TYPE_CHECKING:
    from scheduler.telemetry import GpuSample, GpuUsage, Inventory

    Usage = Mapping[GpuKey, GpuUsage]


class Held(Protocol):
    """Nodes, and the workloads that hold their GPUs."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def standing(self) -> Iterable[Workload]: ...


def by_job(inventory: Inventory, book: Held, *, picks: bool) -> Usage:
    """How busy the GPUs of workloads are, as numbered in their placements. `picks`: the engine picks GPUs."""
    usage = inventory.usage(book.nodes)
    if not picks or not usage:
        return usage
    picked = Picked(usage, inventory.samples(book.nodes), book.nodes)
    found: dict[GpuKey, GpuUsage] = {}
    for workload in book.standing:
        for node, gpus in gpus_by_node(workload).items():
            found |= picked.certain(workload.id, node, gpus) or picked.busiest(workload.id, node, gpus)
    return found


def in_sight(inventory: Inventory, book: Held, *, picks: bool) -> Usage:
    """How busy GPUs are, as numbered in placements, as far as it is certain. GPUs that nobody holds are those on which
    no workload has a process."""
    usage = inventory.usage(book.nodes)
    if not picks or not usage:
        return usage
    picked = Picked(usage, inventory.samples(book.nodes), book.nodes)
    found: dict[GpuKey, GpuUsage] = {}
    held: set[GpuKey] = set()
    for workload in book.standing:
        for node, gpus in gpus_by_node(workload).items():
            held |= {GpuKey((node, gpu)) for gpu in gpus}
            found |= picked.certain(workload.id, node, gpus)
    for each in book.nodes:
        found |= picked.free(each.name, held)
    return found


class Picked:
    """Whose the GPUs are that an engine has picked: their use and their samples, by the driver's numbers."""

    def __init__(self, usage: Usage, samples: Mapping[GpuKey, GpuSample], nodes: Iterable[Node]) -> None:
        self._usage = usage
        self._nodes = {node.name: node for node in nodes}
        self._owners = {
            key: {owner for each in sample.processes if (owner := each.job_id or each.session) is not None}
            for key, sample in samples.items()
        }

    def certain(self, workload: WorkloadId, node: NodeName, gpus: Sequence[int]) -> Usage:
        """The use of a workload's GPUs if it has processes on as many whole GPUs as it holds; else nothing."""
        keys = [key for key in self._keys(node) if workload in self._owners.get(key, ())]
        if self._parts(node) or len(keys) != len(gpus) or not all(key in self._usage for key in keys):
            return {}
        return {GpuKey((node, gpu)): self._usage[key] for gpu, key in zip(gpus, keys, strict=True)}

    def busiest(self, workload: WorkloadId, node: NodeName, gpus: Sequence[int]) -> Usage:
        """Each of a workload's GPUs as busy as the busiest that it may have; nothing if one is not measured."""
        keys = [key for key in self._keys(node) if self._parts(node) or self._may_have(workload, key)]
        known = [self._usage[key] for key in keys if key in self._usage and self._usage[key].utilisation is not None]
        if not known or len(known) != len(keys):
            return {}
        most = max(known, key=lambda gpu: gpu.utilisation or 0.0)
        return {GpuKey((node, gpu)): most for gpu in gpus}

    def free(self, node: NodeName, held: Container[GpuKey]) -> Usage:
        """The use of the GPUs that nobody holds."""
        if self._parts(node):
            return {}
        keys = self._keys(node)
        unused = [self._usage[key] for key in keys if key in self._usage and not self._owners.get(key)]
        return dict(zip([key for key in keys if key not in held], unused, strict=False))

    def _keys(self, node: NodeName) -> list[GpuKey]:
        found = self._nodes.get(node)
        return [] if found is None else [GpuKey((node, gpu)) for gpu in range(found.gpus)]

    def _parts(self, node: NodeName) -> bool:
        return node in self._nodes and self._nodes[node].gpu_parts > 1

    def _may_have(self, workload: WorkloadId, key: GpuKey) -> bool:
        owners = self._owners.get(key, set())
        return not owners or workload in owners


def gpus_by_node(workload: Workload) -> dict[NodeName, list[int]]:
    """The numbers of a workload's GPUs, by node."""
    found: dict[NodeName, list[int]] = {}
    for worker in workload.placement:
        found.setdefault(worker.node, []).extend(worker.gpus)
    return found
