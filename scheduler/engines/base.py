"""What an engine is: a place where workers run. An engine knows nothing of policy, of the API or of the store.

What must hold on every engine:
- `launch` is idempotent on (job, attempt): asked twice, also over a `kill -9` in between, it starts each worker once.
- A worker outlives the scheduler. After a restart `recover` finds every worker of the attempts it is told of, and
  says of each how it stands now: running, exited (with its status) or lost.
- An exit status is never lost and never invented.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model import Node, Program, WorkerPlacement


class WorkerState(StrEnum):
    """`running → exited`; `lost` where nobody can say how a worker ended (its supervisor was killed, its node is gone)."""

    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What an engine reports of one worker. `exit_code` is negative for a signal, as in `subprocess`."""

    job: str
    attempt: int
    rank: int
    state: WorkerState
    at: float
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt of a job, ready to run: `workers[rank]` is where that rank stands, `nodes` has each node by name."""

    job: str
    attempt: int
    program: Program
    workers: tuple[WorkerPlacement, ...]
    nodes: Mapping[str, Node]
    env: Mapping[str, str]


Report = Callable[[WorkerStatus], None]
"""Called in the event loop's thread. Reports of one worker come in order; a repeated one must be harmless."""


class Engine(ABC):
    """Where workers run."""

    @abstractmethod
    async def open(self, report: Report) -> None:
        """Make ready; from now on every change of a worker is told to `report`."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything and leave the workers running."""

    @abstractmethod
    async def launch(self, launch: Launch) -> None:
        """Start every worker of an attempt. Raises `RunaiError` when it can't (what was started is stopped again)."""

    @abstractmethod
    async def stop(self, job: str, attempt: int, grace: float) -> None:
        """SIGTERM now, SIGKILL after `grace` seconds, to every process of the attempt; returns at once."""

    @abstractmethod
    async def recover(self, attempts: Iterable[tuple[str, int, int]]) -> frozenset[tuple[str, int]]:
        """Find the workers of `(job, attempt, world size)` again and report how each stands.

        Returns those attempts that were never launched (to be launched now). Stops what runs and is not named.
        """

    @abstractmethod
    async def read_log(self, job: str, attempt: int, rank: int, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes of a worker's output from byte `offset`; empty where there is none (yet)."""

    @abstractmethod
    async def forget(self, job: str) -> None:
        """Delete everything that is kept of a job that has ended."""
