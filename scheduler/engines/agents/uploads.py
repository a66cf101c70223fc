"""The files that workers upload, in the folders of the state folder.

```
jobs/<id>/output/  checkpoint/              as the workers have sent them
jobs/<id>/incoming/<rank>-<name>.<version>  a file that has not been sent to its end
jobs/<id>/merged.json                       how much of each worker's reports is in output/metrics.jsonl
jobs/<id>/attempts/<n>/<rank>/log           what a worker has printed; log.times: when it had arrived
```

What must hold:
- A piece may be repeated, or resent from an earlier offset: the result is what the worker wrote, once.
- A file appears complete or not at all. Paths of a worker never resolve outside its job's areas, whatever is there.
- The files of a job are bounded in bytes and in number.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from scheduler.engines import outputs, throughput
from scheduler.engines.agents.tokens import Worker
from scheduler.engines.deletion import delete, kept
from scheduler.engines.files import Area, FileInfo, JobFile, JobFiles, Reader, log_file
from scheduler.errors import Conflict, NotFound, TooLarge
from scheduler.model import JobId
from scheduler.worker.logtimes import MOST, LogTimesFile, times_of

LIMITS = {Area.OUTPUT: 16 * 2**30, Area.CHECKPOINT: 64 * 2**30}
"""Bytes that a job may keep in an area."""

STREAM_LIMIT = 2**30
"""Limits of its reports and of its displays, in bytes."""

NOTICE = 4096
"""Bytes by which a log may exceed its limit: the sentence that says that it was cut."""

LOG, REPORTS, DISPLAYS = "log", "reports", "displays"
TIMES = "log.times"
DISPLAYS_FILE = ".runai-cell/displays.{}.jsonl"
"""The path of an attempt's displays in its output folder."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file: `size` and `modified` are the whole file's; `version` distinguishes its contents."""

    offset: int
    data: bytes
    size: int
    modified: float
    version: str


class Uploads(JobFiles):
    """`runs` says whether a worker may still write; `log_limit` bounds its log, in bytes."""

    def __init__(self, state_dir: Path, log_limit: int, runs: Callable[[JobId, Worker | None], bool]) -> None:
        self._jobs = state_dir / "jobs"
        self._log_limit = log_limit
        self._runs = runs
        self._written: dict[JobFile, asyncio.Event] = {}
        self._times: dict[Worker, LogTimesFile] = {}
        self._watching: dict[JobId, list[Callable[[Area], None]]] = {}
        self._merging: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self) -> None:
        await asyncio.to_thread(self._jobs.mkdir, mode=0o700, parents=True, exist_ok=True)

    async def close(self) -> None:
        for event in self._written.values():
            event.set()

    def job(self, job: JobId) -> Path:
        """The folder of a job. Raises `NotFound` for what cannot be a job's id."""
        if not outputs.is_job(job):
            raise NotFound(f"There is no job {job!r}.")
        return self._jobs / job

    def folder(self, worker: Worker) -> Path:
        """The folder of a worker."""
        return self.job(worker.job) / "attempts" / str(worker.attempt) / str(worker.rank)

    # -- what workers send ----------------------------------------------------------------------------------

    async def append(self, worker: Worker, stream: str, offset: int, data: bytes) -> int:
        """Append to a stream; returns the bytes stored so far, from where the worker continues."""
        if stream == REPORTS:
            async with self._merging.setdefault(worker.job, asyncio.Lock()):
                stored = await asyncio.to_thread(self._merge, worker, offset, data)
            self._wrote(worker, Area.OUTPUT)
            return stored
        if stream == LOG:
            folder = self.folder(worker)
            times = self._times.setdefault(worker, LogTimesFile(str(folder / TIMES)))
            limit = self._log_limit + NOTICE
            size = await asyncio.to_thread(_extend_log, folder, offset, data, limit, times)
            self.tell(worker)
            return size
        if stream == DISPLAYS and worker.rank == 0:
            folder, path = self._area(worker.job, Area.OUTPUT), DISPLAYS_FILE.format(worker.attempt)
            size = await asyncio.to_thread(_extend, folder, path, offset, data, STREAM_LIMIT)
            self._wrote(worker, Area.LOG)
            return size
        raise NotFound(f"A worker has no stream {stream!r}.")

    def tell(self, worker: Worker) -> None:
        """Wake the readers that follow a worker's log: it has grown or is complete."""
        if event := self._written.pop(log_file(worker.job, worker.attempt, worker.rank), None):
            event.set()
        self._wrote(worker, Area.LOG)

    def _wrote(self, worker: Worker, area: Area) -> None:
        for written in self._watching.get(worker.job, ()):
            written(area)

    def keep(self, worker: Worker) -> None:
        """Make an ended worker's files durable and delete its incomplete uploads."""
        if times := self._times.pop(worker, None):
            times.look(*times.latest, last=True)
        for begun in (self.job(worker.job) / "incoming").glob(f"{worker.rank}-*"):
            begun.unlink(missing_ok=True)
        output = self._area(worker.job, Area.OUTPUT)
        displays = DISPLAYS_FILE.format(worker.attempt)
        for folder, path in ((self.folder(worker), "log"), (output, throughput.FILE), (output, displays)):
            with contextlib.suppress(NotFound), outputs.open_file(folder, path) as file:
                os.fsync(file.fileno())

    async def put(self, worker: Worker, area: Area, path: str, piece: Piece) -> int:
        """Store a piece of a file; the last one makes the file appear. Returns the bytes stored so far."""
        return await asyncio.to_thread(self._put, worker, area, path, piece)

    async def remove(self, worker: Worker, area: Area, path: str) -> None:
        """Delete a file if it exists."""
        await asyncio.to_thread(outputs.remove, self._area(worker.job, area), path)

    def _put(self, worker: Worker, area: Area, path: str, piece: Piece) -> int:
        folder = self._area(worker.job, area)
        outputs.parts_of(path)
        with contextlib.suppress(NotFound), outputs.open_file(folder, path) as there:
            about = os.fstat(there.fileno())
            if (about.st_size, about.st_mtime) == (piece.size, piece.modified):
                return piece.size  # its last piece, repeated
        incoming = self.job(worker.job) / "incoming"
        incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{worker.rank}-{hashlib.sha256(f'{area}/{path}'.encode()).hexdigest()[:32]}"
        content = f"{piece.version} {piece.size} {piece.modified}"
        file = incoming / f"{name}.{hashlib.sha256(content.encode()).hexdigest()[:16]}"
        if piece.offset == 0:
            for other in incoming.glob(f"{name}.*"):
                other.unlink(missing_ok=True)
            _make_room(folder, incoming, area, path, piece.size)
        size = _extend(incoming, file.name, piece.offset, piece.data, piece.size)
        if size == piece.size:
            os.utime(file, (piece.modified, piece.modified))
            outputs.put(folder, path, file)
        return size

    def _merge(self, worker: Worker, offset: int, data: bytes) -> int:
        """Merge a worker's reports into those of the others, line by line.

        After `kill -9` of the scheduler `merged.json` is authoritative; anything appended beyond it is overwritten.
        """
        book = self.job(worker.job) / "merged.json"
        try:
            merged = json.loads(book.read_bytes())
        except (FileNotFoundError, ValueError):
            merged = {
                "size": outputs.size_of(self._area(worker.job, Area.OUTPUT) / throughput.FILE),
                "from": {},
            }
        source = f"{worker.attempt}.{worker.rank}"
        known = int(merged["from"].get(source, 0))
        lines = data[known - offset : data.rfind(b"\n") + 1] if offset <= known else b""
        if lines:
            folder = self._area(worker.job, Area.OUTPUT)
            merged["size"] = _extend(folder, throughput.FILE, merged["size"], lines, STREAM_LIMIT)
            merged["from"][source] = known + len(lines)
            outputs.write_whole(book, json.dumps(merged).encode())
        return known + len(lines)

    # -- reading --------------------------------------------------------------------------------------------

    async def read(self, file: JobFile, offset: int, limit: int) -> bytes:
        folder, path = self._place(file)
        return await asyncio.to_thread(_read, folder, path, offset, limit)

    async def log_times(self, log: JobFile) -> list[tuple[int, float]]:
        folder, _ = self._place(log)
        attempt, _, rank = log.path.partition("/")
        times = self._times.get(Worker(log.job, int(attempt), int(rank)))
        later = [times.latest] if times else []
        return await asyncio.to_thread(lambda: times_of(_read(folder, TIMES, 0, MOST), *later))

    async def grown(self, file: JobFile, offset: int) -> bool:
        folder, path = self._place(file)
        attempt, _, rank = file.path.partition("/")
        worker = Worker(file.job, int(attempt), int(rank))
        while True:
            written = self._written.setdefault(file, asyncio.Event())
            runs = self._runs(file.job, worker)
            if await asyncio.to_thread(outputs.size_of, folder / path) > offset:
                return True
            if not runs or written.is_set():
                return False
            await written.wait()
            if self._written.get(file) is written:
                return False  # closed

    @contextlib.contextmanager
    def watch(self, job: JobId, attempt: int, workers: int, written: Callable[[Area], None]) -> Iterator[None]:
        self._watching.setdefault(job, []).append(written)
        try:
            yield
        finally:
            self._watching[job].remove(written)
            if not self._watching[job]:
                del self._watching[job]

    async def list(self, job: JobId, area: Area) -> tuple[FileInfo, ...]:
        return await asyncio.to_thread(outputs.listing, self._area(job, area))

    async def open_file(self, file: JobFile) -> Reader:
        return outputs.OpenFile(await asyncio.to_thread(outputs.open_file, *self._place(file)))

    async def forget(self, job: JobId) -> None:
        folder = self.job(job)
        if self._runs(job, None):
            raise Conflict(f"Job {job} still has processes; cancel it first.")
        await asyncio.to_thread(delete, folder)

    async def kept(self) -> frozenset[JobId]:
        return await asyncio.to_thread(kept, self._jobs)

    def _area(self, job: JobId, area: Area) -> Path:
        return self.job(job) / ("attempts" if area is Area.LOG else area.value)

    def _place(self, file: JobFile) -> tuple[Path, str]:
        """The folder of a file, and the file's path in it."""
        if file.area is not Area.LOG:
            return self._area(file.job, file.area), file.path
        attempt, _, rank = file.path.partition("/")
        if not (attempt.isdecimal() and rank.isdecimal()):
            raise NotFound(f"{file.path!r} is not a log.")
        return self.folder(Worker(file.job, int(attempt), int(rank))), "log"


def _extend(folder: Path, path: str, offset: int, data: bytes, limit: int) -> int:
    """Write `data` at `offset` of a file unless that leaves a gap; returns the file's new size."""
    if offset + len(data) > limit:
        raise TooLarge(f"This may have {limit:,} bytes at most.")
    with outputs.open_to_write(folder, path) as file:
        size = os.fstat(file.fileno()).st_size
        if offset > size:
            return size
        os.pwrite(file.fileno(), data, offset)
        return max(size, offset + len(data))


def _extend_log(folder: Path, offset: int, data: bytes, limit: int, times: LogTimesFile) -> int:
    size = _extend(folder, "log", offset, data, limit)
    times.look(size, time.time())
    return size


def _read(folder: Path, path: str, offset: int, limit: int) -> bytes:
    try:
        with outputs.open_file(folder, path) as found:
            return outputs.part(found.fileno(), offset, limit)
    except NotFound:
        return b""


def _make_room(folder: Path, incoming: Path, area: Area, path: str, size: int) -> None:
    """Raise `TooLarge` if this file, with those that exist or are being uploaded, exceeds the job's limits."""
    others = [file for file in outputs.listing(folder) if file.path != path]
    others += outputs.listing(incoming)
    if len(others) >= outputs.MOST:
        raise TooLarge(f"A job may have {outputs.MOST:,} files in its {area} folder.")
    if size + sum(file.size for file in others) > LIMITS[area]:
        raise TooLarge(f"A job may have {LIMITS[area] // 2**30} GiB in its {area} folder.")
