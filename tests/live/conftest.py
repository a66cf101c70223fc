"""The running service for administrators and users: real HTTP, store, controller and policy, on declared nodes, with
workers that end on the test's command."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler.engines.backend import Backend
from scheduler.engines.base import Launch
from scheduler.model import BUILD_POOL, Node, NodeName
from tests.api.conftest import Service, running, service, start
from tests.controller.stage import Bench
from tests.engines.scripted import Machines, ScriptedEngine, ScriptedFiles, ScriptedLeadership, World

__all__ = ["service", "start"]
"""Real processes, in `test_programs`."""

NODES = (
    Node(NodeName("desk"), gpus=2, node_pool=BUILD_POOL),
    Node(NodeName("n1"), gpus=4),
    Node(NodeName("n2"), gpus=4),
)


@dataclass
class Live:
    """A scheduler behind HTTP, with the callers of `tests.api.conftest`: `owner` is ann, `mate` ben, `stranger` zoe."""

    service: Service
    bench: Bench

    async def apply(self, **pool_file: Any) -> dict[str, Any]:
        """Apply a pool file; returns its changes with the warnings."""
        return _content(await self.service.http["admin"].post("pool/apply", json=pool_file))

    async def send(self, caller: str = "owner", **job: Any) -> httpx.Response:
        return await self.service.http[caller].post("jobs", json={"command": ["train"], **job})

    async def submit(self, caller: str = "owner", **job: Any) -> str:
        """Submit a job; returns its id."""
        return str(_content(await self.send(caller, **job))["id"])

    async def refuses(self, caller: str = "owner", **job: Any) -> str:
        """The invalid field of a refused job."""
        return _field(await self.send(caller, **job))

    async def get(self, path: str, caller: str = "admin") -> dict[str, Any]:
        return _content(await self.service.http[caller].get(path))

    async def job(self, job_id: str) -> dict[str, Any]:
        """A job once nothing changes by itself."""
        await self.bench.settled()
        return await self.get(f"jobs/{job_id}")

    async def runs(self, *job_ids: str) -> list[str]:
        """Those of these jobs that run once nothing changes by itself."""
        await self.bench.settled()
        return [id for id in job_ids if (await self.get(f"jobs/{id}"))["state"] == "running"]

    async def submit_all(self, *jobs: dict[str, Any]) -> list[str]:
        """Submit jobs one after the other."""
        return [await self.submit(**job) for job in jobs]

    async def nodes_of(self, job_id: str) -> list[str]:
        """The node of each of a job's workers in its latest attempt."""
        attempts = (await self.job(job_id))["attempts"]
        return [worker["node"] for worker in attempts[-1]["workers"]] if attempts else []

    def launched(self, job_id: str) -> Launch:
        """The latest attempt of a job, as requested from the engine."""
        attempts = self.bench.engine.world.placements
        return attempts[max(attempt for attempt in attempts if attempt[0] == job_id)]

    async def refuses_pool(self, **pool_file: Any) -> str:
        """The invalid field of a refused pool file."""
        return _field(await self.service.http["admin"].post("pool/apply", json=pool_file))

    def end(self, job_id: str, code: int = 0, at: float | None = None) -> None:
        """End a job's workers, by default now."""
        for job, attempt in self.bench.engine.world.running():
            if job == job_id:
                for rank in self.bench.engine.world.workers[job, attempt]:
                    self.bench.engine.end(job, attempt, rank, code, at=at)


def _content(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _field(refusal: httpx.Response) -> str:
    assert refusal.status_code in (403, 409, 422), refusal.text
    return str(refusal.json()["field"])


Open = Callable[..., Awaitable[Live]]


@pytest.fixture
async def open_pool(tmp_path: Path) -> AsyncIterator[Open]:
    """Start a scheduler with these nodes (or the default ones) and apply a pool file, if one is given."""
    async with AsyncExitStack() as stack:

        async def opened(*nodes: Node, clock: Callable[[], float] = time.time, **pool_file: Any) -> Live:
            world = World()
            engine, files, machines = ScriptedEngine(world), ScriptedFiles(world), Machines(*(nodes or NODES))
            backend = Backend(engine, files, machines, ScriptedLeadership(world))
            service = await stack.enter_async_context(running(tmp_path, backend=backend, clock=clock))
            live = Live(service, Bench(tmp_path, service.controller, engine, files, machines, service.store))
            if pool_file:
                await live.apply(**pool_file)
            return live

        yield opened
