"""The inventory of this machine: the GPUs that NVML finds, or declared ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from scheduler.errors import Unavailable
from scheduler.model import GpuKey, Node, Pool
from scheduler.telemetry.inventory import GpuUsage, Inventory
from scheduler.telemetry.machine_gpus import DECLARED, DeclaredGpus, MachineGpus
from scheduler.telemetry.nvml import NvmlGpus, find

_log = logging.getLogger(__name__)


class LocalInventory(Inventory):
    """This machine, divided among the node pools. `declared_gpus` is how many it has where NVML finds none."""

    def __init__(self, declared_gpus: int | None = None) -> None:
        self._declared_gpus = declared_gpus
        self._found: MachineGpus | None = None

    async def open(self, changed: Callable[[], None]) -> None:
        self._found = await asyncio.to_thread(find_gpus, self._declared_gpus)

    async def close(self) -> None:
        if self._found is not None:
            await asyncio.to_thread(self._found.close)
            self._found = None

    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        return self._gpus.nodes(pool)

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        return self._gpus.usage(nodes)

    @property
    def _gpus(self) -> MachineGpus:
        assert self._found is not None, "The inventory is not open."
        return self._found


def find_gpus(declared_gpus: int | None = None) -> MachineGpus:
    """The GPUs that NVML finds; where there are none, `declared_gpus` (8 unless said otherwise).

    Raises `Unavailable` where there is a driver that does not work, or GPUs that cannot be used, and nobody has said
    how many GPUs to declare instead: it would be wrong to pretend.
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
