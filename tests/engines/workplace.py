"""Real engines, real processes. `Workplace` is a state folder with an open engine and its reports."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scheduler.engines.base import Launch, WorkerState, WorkerStatus
from scheduler.engines.files import JobFiles
from scheduler.engines.local.engine import LocalEngine
from scheduler.model import JobId, JobKind, Node, NodeName, Program, UserName, WorkerPlacement

PATIENCE = 60.0
"""Seconds until a test gives up; only a failing test waits that long."""

Command = tuple[str, ...]


def python(code: str) -> Command:
    return (sys.executable, "-I", "-S", "-c", code)


def shell(code: str) -> Command:
    return ("/bin/sh", "-c", code)


def launch(
    job: str,
    command: Command,
    *,
    workers: int = 1,
    attempt: int = 1,
    node: Node | None = None,
    grace: float = 5.0,
    bundle: str | None = None,
    env: dict[str, str] | None = None,
    user: str = "ada",
) -> Launch:
    """An attempt with one GPU per worker."""
    node = node or Node(NodeName("here-train"), 64)
    return Launch(
        JobId(job),
        attempt,
        Program(JobKind.COMMAND, command, grace=grace, bundle=bundle, env=env or {}),
        tuple(WorkerPlacement(node.name, (rank,)) for rank in range(workers)),
        {node.name: node},
        {"RUNAI_JOB_NAME": f"name of {job}", "RUNAI_PROJECT": "default"},
        UserName(user),
    )


class Reports:
    """The reports of an engine, in order."""

    def __init__(self) -> None:
        self.reports: list[WorkerStatus] = []
        self._changed = asyncio.Event()

    def report(self, status: WorkerStatus) -> None:
        self.reports.append(status)
        self._changed.set()

    async def until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not happened():
                self._changed.clear()
                await self._changed.wait()

    async def end(self, job: str, rank: int = 0, attempt: int = 1) -> WorkerStatus:
        """Wait for the end of a worker."""
        await self.until(lambda: any(map(ended, self.of(job, rank, attempt))))
        return next(filter(ended, self.of(job, rank, attempt)))

    def of(self, job: str, rank: int = 0, attempt: int = 1) -> list[WorkerStatus]:
        return [each for each in self.reports if (each.job, each.rank, each.attempt) == (job, rank, attempt)]

    def states(self, job: str, rank: int = 0, attempt: int = 1) -> list[WorkerState]:
        return [each.state for each in self.of(job, rank, attempt)]


class Workplace(Reports):
    """A state folder, its open engine, and the reports in order."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__()
        self.state_dir = state_dir
        self.engine = LocalEngine(state_dir)

    @property
    def files(self) -> JobFiles:
        return self.engine.files

    async def open(self) -> None:
        await self.files.open()
        await self.engine.open(self.report)

    async def close(self) -> None:
        await self.engine.close()
        await self.files.close()

    async def restart(self) -> None:
        """Another engine in the same folder, which knows only what is on disk."""
        await self.close()
        self.engine = LocalEngine(self.state_dir)
        self.reports.clear()
        await self.open()

    def job(self, job: str) -> Path:
        return self.state_dir / "jobs" / job

    def output(self, job: str, name: str = "out") -> str:
        return (self.job(job) / "output" / name).read_text()

    async def output_of(self, job: str, name: str = "out") -> str:
        """A file of a running job, once it exists and ends with a line end."""
        file = self.job(job) / "output" / name
        await eventually(lambda: file.exists() and file.read_text().endswith("\n"))
        return file.read_text()

    async def counted(self, job: str, lines: int, name: str = "out") -> None:
        """Wait until an output file has this many lines."""
        file = self.job(job) / "output" / name
        await eventually(lambda: file.exists() and file.read_text().count("\n") >= lines)

    def supervisor(self, job: str, rank: int = 0, attempt: int = 1) -> int:
        return int((self.job(job) / "attempts" / str(attempt) / str(rank) / "claim").read_text().split()[0])


async def eventually(holds: Callable[[], bool]) -> None:
    """Poll for a condition outside this process that has no event."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def ended(status: WorkerStatus) -> bool:
    return status.state.over


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    command: list[str]
    environment: dict[str, str]


def all_processes() -> Iterator[Process]:
    """Every live process that may be inspected."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        folder = Path("/proc", name)
        try:
            command = os.fsdecode((folder / "cmdline").read_bytes()).split("\0")[:-1]
            environment = os.fsdecode((folder / "environ").read_bytes()).split("\0")
            state, parent = (folder / "stat").read_bytes().rpartition(b") ")[2].split()[:2]
        except OSError:
            continue
        if state != b"Z":
            yield Process(
                int(name),
                int(parent),
                command,
                dict(each.split("=", 1) for each in environment if "=" in each),
            )


def processes(state_dir: Path) -> list[Process]:
    """The processes started for a job of a state folder."""
    return [each for each in all_processes() if each.environment.get("RUNAI_OUTPUT_DIR", "").startswith(str(state_dir))]


def supervisors(state_dir: Path) -> list[Process]:
    """The launcher and the supervisors of a state folder."""
    return [
        each
        for each in all_processes()
        if str(state_dir) in each.command and any(part.endswith("worker/launcher.py") for part in each.command)
    ]
