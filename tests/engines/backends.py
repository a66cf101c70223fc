"""The environments of the contract tests: how a test creates the backend of each kind of engine, and breaks its
machines.

`BACKENDS` has them all. A new engine adds its own and passes `test_contract`.
"""

from __future__ import annotations

import contextlib
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.agents.tokens import Worker
from scheduler.engines.backend import Backend, Setup
from scheduler.engines.local.backend import local
from scheduler.engines.local.ports import Ports
from scheduler.model import AttemptKey, JobId, Node, NodeName
from tests.engines.remote import ADDRESS, Containers, answering, remote
from tests.engines.scripted import World, scripted
from tests.engines.workplace import Reports, processes, supervisors


class BackendSetup(ABC):
    """The environment of workers in a test. It outlives schedulers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def backend(self) -> Backend:
        """A backend that knows only what earlier ones have left here."""

    @abstractmethod
    async def lose(self, job: str, rank: int) -> None:
        """Kill the supervision of a worker of a job's first attempt, so that the worker's end is unknown."""

    @asynccontextmanager
    async def serving(self, backend: Backend) -> AsyncIterator[None]:
        """The server for workers while this backend is open, where they need one."""
        yield

    def take_over(self) -> bool:
        """Make another scheduler the leader though the first has not resigned; False where that is impossible."""
        return False

    @abstractmethod
    async def clear(self) -> None:
        """End all running workers."""


class LocalBackendSetup(BackendSetup):
    def backend(self) -> Backend:
        return local(Setup(StateFolder(self.folder), declared_gpus=8))

    async def lose(self, job: str, rank: int) -> None:
        claim = self.folder / "jobs" / job / "attempts/1" / str(rank) / "claim"
        os.kill(int(claim.read_text().split()[0]), signal.SIGKILL)

    async def clear(self) -> None:
        for process in [*processes(self.folder), *supervisors(self.folder)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


class ScriptedBackendSetup(BackendSetup):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.world = World()

    def backend(self) -> Backend:
        return scripted(self.world, Node(NodeName("n1"), gpus=8))

    async def lose(self, job: str, rank: int) -> None:
        self.world.end(job, 1, rank, None)

    def take_over(self) -> bool:
        return self.world.take_over()

    async def clear(self) -> None:
        for playing in self.world.played:
            playing.cancel()


class RemoteBackendSetup(BackendSetup):
    """Agents as separate processes, which reach the scheduler over HTTP at a fixed port."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.containers = Containers(folder.parent / "containers")
        (self.port,) = Ports(ADDRESS).take("scheduler", 1)  # outgoing connections do not use this range

    def backend(self) -> Backend:
        return remote(self.folder, self.containers, f"http://{ADDRESS}:{self.port}")

    @asynccontextmanager
    async def serving(self, backend: Backend) -> AsyncIterator[None]:
        async with answering(self.folder, backend, self.port):
            yield

    async def lose(self, job: str, rank: int) -> None:
        self.containers.kill(Worker(JobId(job), 1, rank))

    async def clear(self) -> None:
        self.containers.clear()


BACKENDS: Mapping[str, Callable[[Path], BackendSetup]] = {
    "local": LocalBackendSetup,
    "scripted": ScriptedBackendSetup,
    "remote": RemoteBackendSetup,
}


class Scheduler(Reports):
    """A scheduler's use of a backend: opens it in order, and receives its reports."""

    def __init__(self, setup: BackendSetup) -> None:
        super().__init__()
        self.setup = setup
        self.backend = setup.backend()
        self._ends = contextlib.AsyncExitStack()

    async def open(self) -> None:
        await self.backend.leadership.acquire()
        await self.backend.inventory.open(lambda: None)
        await self.backend.files.open()
        await self.backend.engine.open(self.report)

    async def serve(self) -> None:
        """Serve workers, and recover earlier attempts."""
        await self._ends.enter_async_context(self.setup.serving(self.backend))

    async def close(self) -> None:
        await self._ends.aclose()
        await self.backend.engine.close()
        await self.backend.files.close()
        await self.backend.inventory.close()
        await self.backend.leadership.release()

    async def restart(self, *known: tuple[str, int, int]) -> frozenset[AttemptKey]:
        """Start another scheduler in the same place with these attempts; returns those that were never launched."""
        await self.close()
        self.backend = self.setup.backend()
        self.reports.clear()
        await self.open()
        never = await self.backend.engine.recover([(JobId(job), number, size) for job, number, size in known])
        await self.serve()
        return never
