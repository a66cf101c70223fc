"""The GPUs of this machine: found by NVML, or declared where it finds none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from scheduler.model import GpuKey, Node, Pool
from scheduler.telemetry.inventory import GpuUsage
from scheduler.telemetry.machine import Gpu, Machine, cpus, divide, host, memory

DECLARED = 8
"""How many GPUs are declared where nobody says another number."""


class MachineGpus(ABC):
    """`notes` are sentences for the administrator: what was found but cannot be used, say."""

    def __init__(self, machine: Machine, notes: tuple[str, ...] = ()) -> None:
        self.machine = machine
        self.notes = notes

    @property
    def declared(self) -> bool:
        """True where the GPUs were not found, but are said to be there."""
        return self.machine.declared

    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        """The nodes that this machine makes for a pool."""
        return divide(self.machine, pool)

    @abstractmethod
    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        """How busy the GPUs of `nodes` were a moment ago, by node and index. Never waits for the driver."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the driver."""


class DeclaredGpus(MachineGpus):
    """GPUs that nobody has seen: jobs find their numbers in the environment, and nothing can be measured."""

    def __init__(self, gpus: int, notes: tuple[str, ...] = ()) -> None:
        found = tuple(Gpu(str(number)) for number in range(gpus))
        super().__init__(Machine(host(), found, cpus=cpus(), memory=memory(), declared=True), notes)

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        return {}

    def close(self) -> None:
        pass
