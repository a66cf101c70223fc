"""The nodes of a pool, the utilisation of their GPUs, and changes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from scheduler.model import GpuKey, JobId, MiB, Node, Pool, WorkerPlacement
from scheduler.telemetry.records import Span
from scheduler.telemetry.sample import GpuProcess, GpuSample


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """The use of a GPU: `utilisation` from 0 to 1 (None where it cannot be measured), memory `used` of `memory`."""

    utilisation: float | None
    used: MiB
    memory: MiB


@dataclass(frozen=True, slots=True)
class History:
    """Spans of `step` seconds each, in the order of time; those in which nothing was measured are absent."""

    step: int
    spans: tuple[Span, ...]


class Inventory(ABC):
    """The nodes of an engine. `nodes` and `usage` answer from memory, once it is open."""

    @abstractmethod
    async def open(self, changed: Callable[[], None]) -> None:
        """Find the nodes. From now on `changed` is called, in the event loop, when the result of `nodes` changes.

        Raises `Unavailable` where they cannot be found.
        """

    @abstractmethod
    async def close(self) -> None:
        """Stop watching the nodes."""

    @abstractmethod
    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        """The nodes of a pool. An unchanged node is the same object each time, where that is cheap."""

    @abstractmethod
    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        """The latest use of the GPUs of `nodes`, by node and index; GPUs that cannot be measured are absent."""

    def samples(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuSample]:
        """The latest sample of the GPUs of `nodes`; GPUs that are not sampled are absent."""
        return {}

    def device(self, node: Node, gpu: int) -> str | None:
        """What the driver calls a GPU of a node; `None` where that is not known."""
        return node.devices[gpu] if gpu < len(node.devices) else None

    def held(
        self, job: JobId, attempt: int, rank: int, worker: WorkerPlacement, node: Node | None
    ) -> tuple[tuple[int, str | None], ...]:
        """The number and device of each GPU that a worker has or had; no device where that is not known, or the node
        (`None`) is gone. Reads files."""
        return tuple((gpu, None if node is None else self.device(node, gpu)) for gpu in worker.gpus)

    def end(self, process: GpuProcess, *, force: bool) -> bool:
        """Ask a process that a sample has named to end, or kill it with `force`; false where it is gone, or may not be
        ended. Reads files.
        """
        return False

    def history(self, device: str, since: float, until: float, points: int) -> History | None:
        """The use of a GPU (by its device) between two instants, as about `points` spans. Reads files.

        `None` where the use of GPUs is not measured.
        """
        return None

    def gpu_numbers(self) -> Mapping[str, int]:
        """The driver's numbers of the GPUs that it has found, by device."""
        return {}
