"""A machine as it is found, and its division among node pools.

Every GPU belongs to at most one node; the same machine and pool give the same nodes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scheduler.model import ONE, Environment, GpuType, Isolation, MiB, Milli, Node, NodeName, NodePool, Pool


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, or an instance of one that is divided by `mig`: `device` is what the driver calls it (an NVML UUID), or
    its number where it is declared."""

    device: str
    type: GpuType | None = None
    memory: MiB | None = None
    mig: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and its GPUs; `gpu_links` groups those (by position) that are joined by the fastest link."""

    name: str
    gpus: tuple[Gpu, ...]
    gpu_links: tuple[tuple[int, ...], ...] = ()
    cpus: Milli | None = None
    memory: MiB | None = None
    declared: bool = False


# -- division into nodes --------------------------------------------------------------------------------


def divide(machine: Machine, pool: Pool) -> tuple[Node, ...]:
    """A node for each node pool, in the pool's order, and one for each type of GPU where a node pool gets several.

    CPUs and memory are divided in proportion to the GPUs.
    """
    nodes: list[Node] = []
    start = 0
    counts = shares(len(machine.gpus), pool.node_pools)
    for node_pool, count in zip(pool.node_pools, counts, strict=True):
        name = f"{machine.name}-{node_pool.name}"
        by_type = _by_type(machine, range(start, start + count))
        for gpu_type, positions in by_type.items():
            own_name = name if len(by_type) == 1 else f"{name}:{(gpu_type or 'other').lower()}"
            nodes.append(_node(machine, own_name, node_pool, positions))
        start += count
    return tuple(nodes)


def shares(gpus: int, node_pools: Sequence[NodePool]) -> list[int]:
    """The number of a machine's GPUs for each node pool: the declared number, as far as there are enough; the others
    share the rest.

    Without declared numbers, node pools for build get a quarter of the machine (at least one GPU of two or more), those
    for train the rest.
    """
    counts = [0] * len(node_pools)
    left = gpus
    for i, node_pool in enumerate(node_pools):
        if node_pool.gpus is not None:
            counts[i] = min(node_pool.gpus, left)
            left -= counts[i]
    build, train = (
        [i for i, each in enumerate(node_pools) if each.gpus is None and each.environment is environment]
        for environment in (Environment.BUILD, Environment.TRAIN)
    )
    quarter = max(gpus // 4, 1 if gpus > 1 else 0)
    for_build = 0 if not build else min(left, quarter) if train else left
    _spread(counts, build, for_build)
    _spread(counts, train, left - for_build)
    return counts


def _spread(counts: list[int], among: Sequence[int], gpus: int) -> None:
    """Divide evenly; the first ones get the remainder."""
    for place, i in enumerate(among):
        counts[i] = gpus // len(among) + (place < gpus % len(among))


def _by_type(machine: Machine, positions: Iterable[int]) -> Mapping[GpuType | None, list[int]]:
    """Positions by type of GPU; one (empty) group where there are none."""
    groups: dict[GpuType | None, list[int]] = {}
    for position in positions:
        groups.setdefault(machine.gpus[position].type, []).append(position)
    return groups or {None: []}


def _node(machine: Machine, name: str, node_pool: NodePool, positions: list[int]) -> Node:
    gpus = [machine.gpus[position] for position in positions]
    memories = [gpu.memory for gpu in gpus if gpu.memory is not None]
    index = {position: i for i, position in enumerate(positions)}
    mig = any(gpu.mig for gpu in gpus)  # which is a type of its own
    gpu_links = (tuple(index[position] for position in group if position in index) for group in machine.gpu_links)
    return Node(
        name=NodeName(name),
        gpus=len(gpus),
        gpu_type=gpus[0].type if gpus else None,
        gpu_memory=min(memories, default=None),
        cpus=_part(machine.cpus, len(gpus), len(machine.gpus)),
        memory=_part(machine.memory, len(gpus), len(machine.gpus)),
        node_pool=node_pool.name,
        gpu_links=tuple(group for group in gpu_links if len(group) > 1),
        devices=tuple(gpu.device for gpu in gpus),
        declared=machine.declared,
        gpu_parts=1 if mig else 0,
        isolation=Isolation.MIG if mig else Isolation.UNKNOWN,
    )


def _part(amount: int | None, gpus: int, of_gpus: int) -> int | None:
    return None if amount is None or of_gpus == 0 else amount * gpus // of_gpus


# -- the operating system -------------------------------------------------------------------------


def host() -> str:
    """This machine's name, without its domain."""
    return socket.gethostname().partition(".")[0] or "localhost"


def cpus() -> Milli:
    """The CPUs that this process may use, by its affinity and the limit of its container."""
    try:
        bound = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        bound = os.cpu_count() or 1
    quota, _, period = _cgroup("cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        return min(bound * ONE, int(quota) * ONE // int(period))
    return bound * ONE


def memory() -> MiB:
    """Memory of this machine, or of the container that this process is in."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _cgroup("memory.max")
    return (min(physical, int(limit)) if limit.isdigit() else physical) // 2**20


def _cgroup(name: str) -> str:
    """A limit of the container from control groups (version 2); else empty."""
    with suppress(OSError):
        return Path("/sys/fs/cgroup", name).read_text().strip()
    return ""
