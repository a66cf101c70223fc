"""The files of a job: its workers' logs, its outputs, and the time of its last checkpoint.

An engine starts and stops processes. Their files are separate: on this machine's disk, or uploaded by the workers. What
must hold everywhere:
- A file is named by its job, its area and a path below that; nothing outside is ever read.
- Logs are append-only. Any other file may be replaced at any time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model import JobId


class Area(StrEnum):
    """The areas of a job's files: `log` (`<attempt>/<rank>`), its output folder and its checkpoint folder."""

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
    """A worker's log."""
    return JobFile(job, Area.LOG, f"{attempt}/{rank}")


def output_file(job: JobId, path: str) -> JobFile:
    """A file of a job's output folder."""
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
        """Open the files."""

    @abstractmethod
    async def close(self) -> None:
        """Close the files; waiting calls of `grown` return false."""

    @abstractmethod
    async def read(self, file: JobFile, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes from byte `offset`; empty where there is none (yet)."""

    @abstractmethod
    async def log_times(self, log: JobFile) -> list[tuple[int, float]]:
        """Lengths of a worker's log in bytes and when it had them, both ascending; precise to about a second."""

    @abstractmethod
    async def grown(self, file: JobFile, offset: int) -> bool:
        """Wait until a worker's log is longer than `offset`; false where no more will come.

        Also false, at once, for a worker that does not run: wait for the start of the attempt first, by its events.
        """

    @abstractmethod
    def watch(
        self, job: JobId, attempt: int, workers: int, written: Callable[[Area], None]
    ) -> AbstractContextManager[None]:
        """Meanwhile, call `written` whenever a worker of this attempt may have written to its log or displays (`LOG`),
        or to the job's reports (`OUTPUT`)."""

    @abstractmethod
    async def list(self, job: JobId, area: Area) -> tuple[FileInfo, ...]:
        """The files of an area, by path; links and what is not a file are left out."""

    @abstractmethod
    async def open_file(self, file: JobFile) -> Reader:
        """Open a file. Raises `NotFound` where there is none."""

    @abstractmethod
    async def forget(self, job: JobId) -> None:
        """Delete all files of a job that has ended. Raises `Conflict` while any of its workers runs."""

    @abstractmethod
    async def kept(self) -> frozenset[JobId]:
        """The jobs that have files. Deletions that a kill has interrupted are completed when this returns."""
