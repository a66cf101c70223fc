"""Which nodes a pool has, how busy their GPUs are, and what changes about them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from scheduler.model import GpuKey, MiB, Node, Pool


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """How busy a GPU is: `utilisation` from 0 to 1 (None where it cannot be measured), memory `used` of `memory`."""

    utilisation: float | None
    used: MiB
    memory: MiB


class Inventory(ABC):
    """The nodes of an engine. `nodes` and `usage` answer from memory, once it is open."""

    @abstractmethod
    async def open(self, changed: Callable[[], None]) -> None:
        """Find the nodes. From now on `changed` is called, in the event loop, when `nodes` has another answer.

        Raises `Unavailable` where they cannot be found.
        """

    @abstractmethod
    async def close(self) -> None:
        """Look no more."""

    @abstractmethod
    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        """The nodes that there are for a pool. One that has not changed is the same object each time, where that is
        cheap."""

    @abstractmethod
    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        """How busy the GPUs of `nodes` were a moment ago, by node and index; those that cannot be measured are
        absent."""
