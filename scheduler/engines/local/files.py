"""The files of jobs in folders on this machine's disk."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from scheduler.engines import outputs
from scheduler.engines.deletion import delete, kept
from scheduler.engines.files import Area, FileInfo, JobFile, JobFiles, Reader, log_file
from scheduler.engines.local.folders import Folders, JobFolder, WorkerFolder
from scheduler.engines.local.follow import Growth
from scheduler.errors import Conflict, NotFound
from scheduler.model import JobId
from scheduler.worker.logtimes import MOST, times_of

DISPLAYS = ".runai-cell"
"""The folder of a cell's displays in its output folder; some have no text in the log."""


class JobFolders(JobFiles):
    """The folders of the jobs in a state folder. The engine reports which logs are being written and which jobs it
    starts."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._growth = Growth()
        self._writing: dict[JobFile, asyncio.Future[None]] = {}
        self._in_use: Counter[str] = Counter()

    async def open(self) -> None:
        self._growth.open()

    async def close(self) -> None:
        self._growth.close()

    # -- for the engine -------------------------------------------------------------------------------------

    def written_by(self, log: JobFile, writer: asyncio.Future[None]) -> None:
        """Register a log's writer: the log is complete once it is done."""
        self._writing[log] = writer
        writer.add_done_callback(lambda _: self._writing.pop(log, None))

    @contextlib.contextmanager
    def in_use(self, job: JobId) -> Iterator[None]:
        """Prevent the deletion of the job's files meanwhile."""
        self._in_use[job] += 1
        try:
            yield
        finally:
            self._in_use[job] -= 1
            self._in_use += Counter()  # drops those at 0

    # -- reading --------------------------------------------------------------------------------------------

    async def read(self, file: JobFile, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(self._read, file, offset, limit)

    async def log_times(self, log: JobFile) -> list[tuple[int, float]]:
        path = self._worker(log).log_times
        return await asyncio.to_thread(lambda: times_of(outputs.read_part(path, 0, MOST)))

    async def grown(self, file: JobFile, offset: int) -> bool:
        log = self._worker(file).log
        while True:
            writer = self._writing.get(file)
            with self._growth.of(log) as grown:
                if await asyncio.to_thread(outputs.size_of, log) > offset:
                    return True
                if writer is None or writer.done():
                    return False
                wait = asyncio.ensure_future(grown.wait())
                try:
                    waits: set[asyncio.Future[Any]] = {writer, wait}
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    wait.cancel()

    @contextlib.contextmanager
    def watch(self, job: JobId, attempt: int, workers: int, written: Callable[[Area], None]) -> Iterator[None]:
        logs = [self._worker(log_file(job, attempt, rank)).log for rank in range(workers)]
        with contextlib.ExitStack() as watching:
            for log in logs:
                watching.enter_context(self._growth.on(log, partial(written, Area.LOG)))
            output = self._folders.job(job).output
            watching.enter_context(self._growth.on(output, partial(written, Area.OUTPUT)))
            watching.enter_context(self._growth.on(output / DISPLAYS, partial(written, Area.LOG)))
            yield

    async def list(self, job: JobId, area: Area) -> tuple[FileInfo, ...]:
        return await asyncio.to_thread(outputs.listing, _folder(self._folders.job(job), area))

    async def open_file(self, file: JobFile) -> Reader:
        folder = _folder(self._folders.job(file.job), file.area)
        return outputs.OpenFile(await asyncio.to_thread(outputs.open_file, folder, file.path))

    def _read(self, file: JobFile, offset: int, limit: int) -> bytes:
        if file.area is Area.LOG:
            return outputs.read_part(self._worker(file).log, offset, limit)
        folder = _folder(self._folders.job(file.job), file.area)
        try:
            with outputs.open_file(folder, file.path) as found:
                return outputs.part(found.fileno(), offset, limit)
        except NotFound:
            return b""

    def _worker(self, file: JobFile) -> WorkerFolder:
        """The folder of the worker whose log this is."""
        attempt, _, rank = file.path.partition("/")
        if file.area is not Area.LOG or not (attempt.isdigit() and rank.isdigit()):
            raise NotFound(f"{file.path!r} is not a log.")
        return self._folders.attempt(file.job, int(attempt)).worker(int(rank))

    # -- deleting -------------------------------------------------------------------------------------------

    async def forget(self, job: JobId) -> None:
        folder = self._folders.job(job)
        marked = await asyncio.to_thread(lambda: [each for each in self._folders.marked() if each[0] == job])
        attempts = [self._folders.attempt(*each) for each in marked]
        if job in self._in_use or any([await asyncio.to_thread(attempt.alive) for attempt in attempts]):
            raise Conflict(f"Job {job} still has processes; cancel it first.")
        await asyncio.to_thread(delete, folder.path)
        for attempt in attempts:
            await asyncio.to_thread(attempt.unmark)

    async def kept(self) -> frozenset[JobId]:
        return await asyncio.to_thread(kept, self._folders.jobs)


def _folder(job: JobFolder, area: Area) -> Path:
    match area:
        case Area.OUTPUT:
            return job.output
        case Area.CHECKPOINT:
            return job.checkpoint
        case Area.LOG:
            return job.attempts
