"""A job's files where its workers write them: in folders of this machine's disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from scheduler.engines.files import Area, FileInfo, JobFile, JobFiles, Reader
from scheduler.engines.local import outputs
from scheduler.engines.local.folders import Folders, JobFolder
from scheduler.engines.local.follow import Growth
from scheduler.errors import Conflict, NotFound


class JobFolders(JobFiles):
    """The folders of the jobs in a state folder. The engine says which logs are being written, and which jobs it starts."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._growth = Growth()
        self._writing: dict[JobFile, asyncio.Future[None]] = {}
        self._in_use: Counter[str] = Counter()

    async def open(self) -> None:
        self._growth.open()

    async def close(self) -> None:
        self._growth.close()

    # -- what the engine says -------------------------------------------------------------------------------

    def written_by(self, log: JobFile, writer: asyncio.Future[None]) -> None:
        """No more comes of a log once its writer is done."""
        self._writing[log] = writer
        writer.add_done_callback(lambda _: self._writing.pop(log, None))

    @contextlib.contextmanager
    def in_use(self, job: str) -> Iterator[None]:
        """Nothing of the job is forgotten meanwhile."""
        self._in_use[job] += 1
        try:
            yield
        finally:
            self._in_use[job] -= 1
            self._in_use += Counter()  # those at 0 go

    # -- reading --------------------------------------------------------------------------------------------

    async def read(self, file: JobFile, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(self._read, file, offset, limit)

    async def grown(self, file: JobFile, offset: int) -> bool:
        log = self._log(file)
        while True:
            writer = self._writing.get(file)
            with self._growth.of(log) as grown:
                if await asyncio.to_thread(size_of, log) > offset:
                    return True
                if writer is None or writer.done():
                    return False
                wait = asyncio.ensure_future(grown.wait())
                try:
                    waits: set[asyncio.Future[Any]] = {writer, wait}
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    wait.cancel()

    async def list(self, job: str, area: Area) -> tuple[FileInfo, ...]:
        return await asyncio.to_thread(outputs.listing, _folder(self._folders.job(job), area))

    async def open_file(self, file: JobFile) -> Reader:
        folder = _folder(self._folders.job(file.job), file.area)
        return _OpenFile(await asyncio.to_thread(outputs.open_file, folder, file.path))

    def _read(self, file: JobFile, offset: int, limit: int) -> bytes:
        if file.area is Area.LOG:
            return read_part(self._log(file), offset, limit)
        folder = _folder(self._folders.job(file.job), file.area)
        try:
            with outputs.open_file(folder, file.path) as found:
                return os.pread(found.fileno(), limit, offset)
        except NotFound:
            return b""

    def _log(self, file: JobFile) -> Path:
        attempt, _, rank = file.path.partition("/")
        if file.area is not Area.LOG or not (attempt.isdigit() and rank.isdigit()):
            raise NotFound(f"{file.path!r} is no log.")
        return self._folders.attempt(file.job, int(attempt)).worker(int(rank)).log

    # -- deleting -------------------------------------------------------------------------------------------

    async def forget(self, job: str) -> None:
        folder = self._folders.job(job)
        marked = await asyncio.to_thread(lambda: [each for each in self._folders.marked() if each[0] == job])
        attempts = [self._folders.attempt(*each) for each in marked]
        if job in self._in_use or any([await asyncio.to_thread(attempt.alive) for attempt in attempts]):
            raise Conflict(f"Job {job} still has processes; cancel it first.")
        await asyncio.to_thread(_delete, folder.path)
        for attempt in attempts:
            await asyncio.to_thread(attempt.unmark)

    async def kept(self) -> frozenset[str]:
        return await asyncio.to_thread(_kept, self._folders.jobs)


class _OpenFile(Reader):
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size

    async def read(self, limit: int) -> bytes:
        return await asyncio.to_thread(self._file.read, limit)

    async def close(self) -> None:
        await asyncio.to_thread(self._file.close)


def _folder(job: JobFolder, area: Area) -> Path:
    match area:
        case Area.OUTPUT:
            return job.output
        case Area.CHECKPOINT:
            return job.checkpoint
        case Area.LOG:
            return job.attempts


def size_of(log: Path) -> int:
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def read_part(log: Path, offset: int, limit: int) -> bytes:
    """Empty where there is no such file."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(descriptor, limit, offset)
    finally:
        os.close(descriptor)


def _delete(folder: Path) -> None:
    """Take a job's folder out of sight at once, and then away."""
    doomed = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    try:
        os.rename(folder, doomed)
    except FileNotFoundError:
        return
    _remove(doomed)


def _kept(jobs: Path) -> frozenset[str]:
    """The jobs that have a folder; what was out of sight already is taken away."""
    names = os.listdir(jobs)
    for name in names:
        if name.startswith("."):
            with contextlib.suppress(OSError):
                _remove(jobs / name)
    return frozenset(name for name in names if not name.startswith("."))


def _remove(doomed: Path) -> None:
    """Folders that the job made unwritable, too. Root needs no leave, and changes nothing that a job may have linked to."""

    def make_writable(remove: Callable[[str], object], path: str, error: Any) -> None:
        if issubclass(error[0], FileNotFoundError):
            return
        if os.geteuid() == 0:
            raise error[1]
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path)
        else:
            os.unlink(path)

    shutil.rmtree(doomed, onerror=make_writable)
