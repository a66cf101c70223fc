"""An engine with remote workers, as in containers: each agent is a process in an empty folder with a clean environment,
and knows only the scheduler's address and the worker's token."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application

from scheduler.api.agent import AGENT_ROUTES
from scheduler.api.app import pattern
from scheduler.api.connections import Connections
from scheduler.api.metrics import Metrics
from scheduler.api.server import make_server
from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.agents.agents import Agents
from scheduler.engines.agents.archive import agent_archive
from scheduler.engines.agents.tokens import Worker
from scheduler.engines.backend import Backend
from scheduler.engines.base import Engine, Grant, Launch, Report, Seat
from scheduler.engines.contract import visible
from scheduler.engines.leadership import FolderLeadership
from scheduler.engines.local.ports import Ports
from scheduler.engines.local.processes import ended
from scheduler.engines.rendezvous import Rendezvous, needs
from scheduler.files.blobs import Blobs
from scheduler.model import AttemptKey, JobId, Node, NodeName
from tests.engines.scripted import Machines

ADDRESS = "127.0.0.1"


class Containers:
    """Simulated containers: folders with an agent each. They outlive schedulers."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self._python = python
        self._agents: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, worker: Worker, url: str, token: str) -> None:
        """Start a worker's agent, unless there is one."""
        home = self.folder / str(worker)
        try:
            home.mkdir(parents=True)
        except FileExistsError:
            return
        agent = self.folder / f"{worker}.pyz"
        agent.write_bytes(agent_archive())
        with (self.folder / f"{worker}.out").open("wb") as out:
            self._agents[str(worker)] = process = subprocess.Popen(
                [self._python, "-I", "-S", str(agent)],
                cwd=home,
                env={"PATH": os.defpath, "RUNAI_AGENT_URL": url, "RUNAI_AGENT_TOKEN": token},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        (self.folder / f"{worker}.pid").write_text(str(process.pid))

    def shown(self, worker: Worker) -> str:
        """The output of a worker's agent."""
        return (self.folder / f"{worker}.out").read_text()

    def pid(self, worker: Worker) -> int:
        try:
            return int((self.folder / f"{worker}.pid").read_text())
        except FileNotFoundError:
            return 0

    def alive(self, worker: Worker) -> bool:
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{self.pid(worker)}/cwd") == str(self.folder / str(worker))
        return False

    def kill(self, worker: Worker) -> None:
        if self.alive(worker):
            os.kill(self.pid(worker), signal.SIGKILL)

    def workers(self) -> list[Worker]:
        """All started agents."""
        found = (path.stem.split(".") for path in self.folder.glob("*.pid"))
        return [Worker(JobId(job), int(attempt), int(rank)) for job, attempt, rank in found]

    def clear(self) -> None:
        for worker in self.workers():
            self.kill(worker)
        for process in self._agents.values():
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class RemoteEngine(Engine):
    """`url` is where agents reach the scheduler."""

    def __init__(self, agents: Agents, containers: Containers, url: str) -> None:
        self._agents = agents
        self._containers = containers
        self._url = url
        self._ports = Ports(ADDRESS)
        self._watched: dict[Worker, asyncio.Task[None]] = {}

    async def open(self, report: Report) -> None:
        await self._agents.open(report)

    async def close(self) -> None:
        for task in self._watched.values():
            task.cancel()
        await asyncio.gather(*self._watched.values(), return_exceptions=True)
        await self._agents.close()

    async def launch(self, launch: Launch) -> None:
        framework, size = launch.program.framework, len(launch.workers)
        ports = self._ports.take((launch.job, launch.attempt), needs(framework, size))
        rendezvous = Rendezvous(framework, launch.workers, (ADDRESS,) * size, ports, secrets.token_urlsafe())
        await self._agents.admit(launch, rendezvous)
        self._bring_about(launch.job, launch.attempt, size)

    async def stop(self, job: JobId, attempt: int, grace: float) -> None:
        await self._agents.stop(job, attempt, grace)

    async def ask_to_save(self, job: JobId, attempt: int, until: float) -> None:
        await self._agents.ask_to_save(job, attempt, until)

    async def recover(self, attempts: Iterable[tuple[JobId, int, int]]) -> frozenset[AttemptKey]:
        named = {(job, attempt): size for job, attempt, size in attempts}
        for worker in self._containers.workers():
            if (worker.job, worker.attempt) not in named:
                self._containers.kill(worker)
        never = await self._agents.recover([(*key, size) for key, size in named.items()])
        for key in named.keys() - never:
            self._bring_about(*key, named[key])
        return never

    async def seat(self, seat: Seat) -> Grant:
        return Grant(visible(seat.workers, seat.nodes))

    async def unseat(self, session: str) -> None:
        pass

    def _bring_about(self, job: str, attempt: int, size: int) -> None:
        """Start missing agents, and watch all."""
        tokens = self._agents.tokens(JobId(job), attempt, size)
        for worker in self._agents.running(JobId(job), attempt):
            self._containers.start(worker, self._url, tokens[worker.rank])
            if worker not in self._watched:
                self._watched[worker] = asyncio.create_task(self._watch(worker))

    async def _watch(self, worker: Worker) -> None:
        await ended(self._containers.pid(worker), lambda: self._containers.alive(worker))
        await self._agents.lose(worker, "its container was lost.")


def remote(folder: Path, containers: Containers, url: str) -> Backend:
    """The backend of containers, with its state in a folder."""
    state = StateFolder(folder)
    agents = Agents(state)
    return Backend(
        RemoteEngine(agents, containers, url),
        agents.files,
        Machines(Node(NodeName("n1"), gpus=8)),
        FolderLeadership(state, 0.0),
        agents,
    )


@asynccontextmanager
async def answering(folder: Path, backend: Backend, port: int) -> AsyncIterator[None]:
    """The paths of agents, served as the scheduler does."""
    api = SimpleNamespace(  # the parts of a `Context` that these handlers use
        agents=backend.agents,
        blobs=Blobs(folder),
        connections=Connections(IOStream.close),
        metrics=Metrics(),
    )
    routes: list[Any] = [(pattern(path), handler) for path, handler in AGENT_ROUTES]
    server = make_server(Application(routes, api=api, log_function=lambda handler: None))
    server.add_sockets(bind_sockets(port, ADDRESS))
    try:
        yield
    finally:
        server.stop()
        await server.close_all_connections()
