"""The GPUs of this machine: found by NVML, or declared where it finds none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path

from scheduler.errors import Unavailable
from scheduler.model import GpuKey, MiB, Node, Pool
from scheduler.telemetry.inventory import GpuUsage
from scheduler.telemetry.machine import Gpu, Machine, cpus, divide, host, memory
from scheduler.telemetry.sample import GpuSample

DECLARED = 8
"""The default number of declared GPUs."""


class MachineGpus(ABC):
    """`notes` are sentences for the administrator, such as GPUs that were found but cannot be used. `numbers` are those
    of the driver, by device."""

    numbers: Mapping[str, int] = {}

    def __init__(self, machine: Machine, notes: tuple[str, ...] = ()) -> None:
        self.machine = machine
        self.notes = notes

    @property
    def declared(self) -> bool:
        """True where the GPUs were declared, not found."""
        return self.machine.declared

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(gpu.device for gpu in self.machine.gpus)

    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        """The nodes of a pool on this machine."""
        return divide(self.machine, pool)

    @abstractmethod
    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        """The latest use of the GPUs of `nodes`, by node and index. Never waits for the driver."""

    def sample(self) -> Mapping[str, GpuSample]:
        """Ask the driver, which may take long, for a sample of each GPU, by device. A GPU without one does not respond.

        Never called by two threads at once.
        """
        return {}

    def limit_memory(self, device: str, cgroup: Path, limit: MiB | None) -> None:
        """Have the driver limit the memory of this GPU that the processes of a control group may use together; `None`:
        no limit. Raises `Unavailable` where it does not.
        """
        raise Unavailable("These GPUs are declared.")

    @abstractmethod
    def close(self) -> None:
        """Release the driver."""


class DeclaredGpus(MachineGpus):
    """Declared GPUs: jobs get their numbers in the environment, and their use cannot be measured."""

    def __init__(self, gpus: int, notes: tuple[str, ...] = ()) -> None:
        found = tuple(Gpu(str(number)) for number in range(gpus))
        super().__init__(Machine(host(), found, cpus=cpus(), memory=memory(), declared=True), notes)

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        return {}

    def close(self) -> None:
        pass
