"""The inventory of this machine: the GPUs that NVML finds, or declared ones."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from scheduler.errors import Unavailable
from scheduler.model import ONE, ForeignUse, GpuKey, Isolation, Node, Pool
from scheduler.telemetry import processes
from scheduler.telemetry.history import HistoryFiles
from scheduler.telemetry.inventory import GpuUsage, History, Inventory
from scheduler.telemetry.isolation import GpuIsolation
from scheduler.telemetry.machine_gpus import DECLARED, DeclaredGpus, MachineGpus
from scheduler.telemetry.nvml import NvmlGpus, find
from scheduler.telemetry.sample import GpuProcess, GpuSample
from scheduler.telemetry.sampler import Sampler

_log = logging.getLogger(__name__)


class LocalInventory(Inventory):
    """This machine, divided among the node pools. `declared_gpus` is its number of GPUs where NVML finds none; the
    history of measured ones is kept in `folder`. `isolation` separates workloads that share one."""

    def __init__(self, declared_gpus: int | None, folder: Path, isolation: GpuIsolation) -> None:
        self._declared_gpus = declared_gpus
        self._isolation = isolation
        self._history = HistoryFiles(folder)
        self._found: MachineGpus | None = None
        self._sampler: Sampler | None = None

    async def open(self, changed: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(changed)

        self._found = await asyncio.to_thread(find_gpus, self._declared_gpus)
        await asyncio.to_thread(self._isolation.open, self._found, tell)
        if not self._found.declared:
            self._sampler = await asyncio.to_thread(self._sample, self._found, tell)

    def _sample(self, gpus: MachineGpus, tell: Callable[[], None]) -> Sampler:
        self._history.discard_old(time.time())
        sampler = Sampler(gpus, self._history, tell)
        sampler.start()
        return sampler

    async def close(self) -> None:
        found, sampler, self._found, self._sampler = self._found, self._sampler, None, None
        answers = sampler is None or await asyncio.to_thread(sampler.close)
        if found is not None and answers:
            await asyncio.to_thread(found.close)

    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        nodes, failures = self._gpus.nodes(pool), self._sampler.failures if self._sampler else {}
        if self._isolation.current is not Isolation.UNKNOWN:
            nodes = tuple(with_isolation(node, self._isolation.current) for node in nodes)
        return tuple(without_failing(node, failures) for node in nodes) if failures else nodes

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        return self._gpus.usage(nodes)

    def samples(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuSample]:
        latest = self._sampler.latest if self._sampler else {}
        return {
            GpuKey((node.name, index)): latest[device]
            for node in nodes
            for index, device in enumerate(node.devices)
            if device in latest
        }

    def end(self, process: GpuProcess, *, force: bool) -> bool:
        return processes.end(process, force=force)

    def history(self, device: str, since: float, until: float, points: int) -> History | None:
        if self._sampler is None:
            return None
        return self._history.read(device, since, until, time.time(), points)

    def gpu_numbers(self) -> Mapping[str, int]:
        return self._gpus.numbers

    @property
    def _gpus(self) -> MachineGpus:
        assert self._found is not None, "The inventory is not open."
        return self._found


def with_isolation(node: Node, isolation: Isolation) -> Node:
    """The node with what keeps workloads to parts of its GPUs: nothing does where their memory is unknown. MIG
    instances are not shared."""
    if node.gpu_parts:
        return node
    return replace(node, isolation=isolation if node.gpu_memory else Isolation.TIME_SLICING)


def without_failing(node: Node, failures: Mapping[str, str]) -> Node:
    """The node, whose GPUs that fail (by device, with the reason) get no work."""
    failing = tuple((gpu, failures[device]) for gpu, device in enumerate(node.devices) if device in failures)
    return replace(node, failing=failing, foreign=ForeignUse(tuple((gpu, ONE) for gpu, _ in failing)))


def find_gpus(declared_gpus: int | None = None) -> MachineGpus:
    """The GPUs that NVML finds; where there are none, `declared_gpus` (default: 8).

    Raises `Unavailable` where a driver does not work, or GPUs cannot be used, and `declared_gpus` is not set.
    """
    try:
        found = find()
    except Unavailable as error:
        if declared_gpus is None:
            raise
        return _with_notes(DeclaredGpus(declared_gpus, (error.sentence,)))
    if found is None:
        return DeclaredGpus(DECLARED if declared_gpus is None else declared_gpus)
    return _with_notes(NvmlGpus(found))


def _with_notes(gpus: MachineGpus) -> MachineGpus:
    for note in gpus.notes:
        _log.warning(note)
    return gpus
