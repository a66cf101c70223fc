"""What a job leaves: its workers' logs, the files that it brings back, and when it last saved its state.

An engine starts and stops processes. Where their files are is another question: on this machine's disk, or wherever
the workers send them. What must hold everywhere:
- A file is named by its job, its area and a path below that; nothing outside is ever read.
- What was read of a log once stays so: logs only grow. Any other file may be replaced at any time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model import JobId


class Area(StrEnum):
    """What a job writes where: `log` (`<attempt>/<rank>`), its output folder and its checkpoint folder."""

    LOG = "log"
    OUTPUT = "output"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class JobFile:
    """One file of a job; `path` is relative to its area, with `/` between its parts."""

    job: JobId
    area: Area
    path: str


def log_file(job: JobId, attempt: int, rank: int) -> JobFile:
    """What a worker prints."""
    return JobFile(job, Area.LOG, f"{attempt}/{rank}")


def output_file(job: JobId, path: str) -> JobFile:
    """A file that a job brings back."""
    return JobFile(job, Area.OUTPUT, path)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file of an area: its path below that, its size in bytes, and when it was written last."""

    path: str
    size: int
    modified: float


class Reader(ABC):
    """A file as it was when it was opened, to be read from its beginning and closed; `size` is in bytes."""

    size: int

    @abstractmethod
    async def read(self, limit: int) -> bytes:
        """The next bytes, `limit` at the most; empty at the end."""

    @abstractmethod
    async def close(self) -> None: ...


class JobFiles(ABC):
    """The files of all jobs. Every method raises `NotFound` for what cannot be a job's id."""

    @abstractmethod
    async def open(self) -> None:
        """Make ready."""

    @abstractmethod
    async def close(self) -> None:
        """Let go; whoever waits in `grown` is told that no more will come."""

    @abstractmethod
    async def read(self, file: JobFile, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes from byte `offset`; empty where there is none (yet)."""

    @abstractmethod
    async def grown(self, file: JobFile, offset: int) -> bool:
        """Wait until a worker's log is longer than `offset`: True then, False where no more will come.

        False also, and at once, for a worker that does not run: wait for the attempt first, as events tell of it.
        """

    @abstractmethod
    async def list(self, job: JobId, area: Area) -> tuple[FileInfo, ...]:
        """The files of an area, by path; links and what is not a file are left out."""

    @abstractmethod
    async def open_file(self, file: JobFile) -> Reader:
        """Open a file. Raises `NotFound` where there is none."""

    @abstractmethod
    async def forget(self, job: JobId) -> None:
        """Delete everything that is kept of a job that has ended. Raises `Conflict` while something of it runs."""

    @abstractmethod
    async def kept(self) -> frozenset[JobId]:
        """The jobs of which anything is kept. What was being forgotten when the scheduler died is gone when this
        returns."""
