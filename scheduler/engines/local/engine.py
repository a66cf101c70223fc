"""Jobs as processes of this machine, each worker under a supervisor that outlives the scheduler.

What must hold, beyond what every engine promises:
- The files of a worker (`folders.py`) are authoritative; the state in memory is only a cache.
- Nothing here blocks the event loop on the disk or polls for the end of a worker.
- The leader of a worker's process group is never signalled after its pid may have been reused.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from scheduler.engines import outputs, throughput
from scheduler.engines.base import Engine, Grant, Launch, Report, Seat, WorkerState, WorkerStatus
from scheduler.engines.contract import visible, worker_spec
from scheduler.engines.errorexcerpt import TAIL, with_error
from scheduler.engines.files import log_file
from scheduler.engines.local import accounts
from scheduler.engines.local.accounts import Account
from scheduler.engines.local.environment import command, environment, identifying
from scheduler.engines.local.files import JobFolders
from scheduler.engines.local.folders import (
    CLOSED,
    PASSABLE,
    AttemptFolder,
    Folders,
    RecordState,
    WorkerFolder,
    WorkerRecord,
)
from scheduler.engines.local.gpuparts import GpuParts
from scheduler.engines.local.launcher import Launcher
from scheduler.engines.local.ports import Ports
from scheduler.engines.local.processes import clear, ended, terminate
from scheduler.engines.rendezvous import Rendezvous, needs
from scheduler.errors import Unavailable
from scheduler.files.blobs import Blobs
from scheduler.model import AttemptKey, Fault, JobId, SessionId
from scheduler.telemetry import CGROUP, GpuIsolation

_log = logging.getLogger(__name__)

LOG_LIMIT = 2**30
"""Bytes of a worker's output that are kept."""

ADDRESS = "127.0.0.1"
"""The address at which the workers of this machine reach each other."""

Key = tuple[JobId, int, int]
"""Job, attempt, rank."""


class LocalEngine(Engine):
    """Runs workers on this machine. `state_dir` belongs to this engine alone while it is open.

    With `as_owner` each job runs as the system user who owns it, which only root can do. `isolation` keeps workers and
    sessions to their parts of GPUs.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        log_limit: int = LOG_LIMIT,
        as_owner: bool = False,
        isolation: GpuIsolation | None = None,
    ) -> None:
        self._folders = Folders(state_dir)
        self.files = JobFolders(self._folders)
        self._blobs = Blobs(self._folders.state_dir)
        self._log_limit = log_limit
        self._as_owner = as_owner
        self._parts = GpuParts(isolation or GpuIsolation(None, self._folders.state_dir))
        self._launcher = Launcher(self._folders.state_dir)
        self.ports = Ports(ADDRESS)
        self._report: Report | None = None
        self._watched: dict[Key, asyncio.Task[None]] = {}
        self._launching: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()

    # -- opening and closing --------------------------------------------------------------------------------

    async def open(self, report: Report) -> None:
        if self._as_owner:
            accounts.check(self._folders.state_dir)
        await asyncio.to_thread(self._folders.make, passable=self._as_owner)
        await self._launcher.open()
        self._report = report

    async def close(self) -> None:
        self._report = None
        watched = list(self._watched.values())
        self._watched.clear()
        for task in watched:
            task.cancel()
        await asyncio.gather(*watched, return_exceptions=True)
        await self._launcher.close()

    # -- launching ------------------------------------------------------------------------------------------

    async def launch(self, launch: Launch) -> None:
        attempt = (launch.job, launch.attempt)
        async with self._launching.setdefault(attempt, asyncio.Lock()):
            with self.files.in_use(launch.job):
                await self._launch(launch)

    async def _launch(self, launch: Launch) -> None:
        attempt = (launch.job, launch.attempt)
        await self._prepare(launch)
        folder = self._folders.attempt(*attempt)
        ranks = range(len(launch.workers))
        starts = (self._launcher.start(folder.worker(rank).path) for rank in ranks)
        outcomes = await asyncio.gather(*starts, return_exceptions=True)
        for rank, outcome in zip(ranks, outcomes, strict=True):
            await self._take_up(*attempt, rank, why="" if outcome is None else str(outcome))

    async def _prepare(self, launch: Launch) -> None:
        """Create the folders of an attempt, with the specification of each worker."""
        job = self._folders.job(launch.job)
        owner = accounts.account(launch.user) if self._as_owner else None
        try:
            if launch.program.blobs:
                await self._blobs.unpack(launch.program.bundle, job.work, launch.program.files)
            await asyncio.to_thread(self._write_down, launch, owner)
        except OSError as error:
            self.ports.give_back((launch.job, launch.attempt))
            raise Unavailable(f"The job could not be started: {error}.") from error

    def _write_down(self, launch: Launch, owner: Account | None) -> None:
        job = self._folders.job(launch.job)
        attempt = job.attempt(launch.attempt)
        job.attempts.mkdir(mode=CLOSED, parents=True, exist_ok=True)
        for folder in (job.work, job.checkpoint, job.output):
            folder.mkdir(mode=CLOSED, parents=True, exist_ok=True)
            if owner is not None:
                accounts.give(folder, owner)
        job.path.chmod(CLOSED if owner is None else PASSABLE)
        rendezvous = self._rendezvous(launch)
        attempt.mark()
        for rank in range(rendezvous.size):
            spec = worker_spec(launch, rank, rendezvous)
            isolating = self._parts.of_worker(launch, rank)
            attempt.worker(rank).write_spec(
                {
                    "command": command(spec),
                    "cwd": str(job.work),
                    "env": environment(spec, job, launch.attempt, os.environ, owner, isolating),
                    "cgroup": isolating.get(CGROUP, ""),
                    "ports": rendezvous.ports,
                    "user": owner and {"user": owner.uid, "group": owner.gid, "extra_groups": owner.groups},
                    "grace": launch.program.grace,
                    "log_limit": self._log_limit,
                }
            )

    def _rendezvous(self, launch: Launch) -> Rendezvous:
        framework, size = launch.program.framework, len(launch.workers)
        ports = self.ports.take((launch.job, launch.attempt), needs(framework, size))
        return Rendezvous(framework, launch.workers, (ADDRESS,) * size, ports, secrets.token_urlsafe())

    # -- the course of a worker ----------------------------------------------------------------------------

    async def _take_up(self, job: JobId, attempt: int, rank: int, why: str = "") -> None:
        """Report a worker's state and watch it while it lives. `why` says why it was not started, if known."""
        key = (job, attempt, rank)
        record = await asyncio.to_thread(self._folders.attempt(job, attempt).worker(rank).read)
        if record.state is RecordState.ALIVE and key in self._watched:
            return  # reported already; its end may be reported before this continues
        if record.started is not None:
            self._tell(key, WorkerState.RUNNING, record.started)
        if record.state is RecordState.ALIVE:
            self._watched[key] = watch = asyncio.create_task(self._watch(key, record))
            self.files.written_by(log_file(*key), watch)
        else:
            if why and record.state is RecordState.UNCLAIMED:
                record = replace(record, reason=why)
            await self._conclude(key, record)

    async def _watch(self, key: Key, record: WorkerRecord) -> None:
        """Watch a worker until its end has been reported, whatever errors occur (for example, too many open files)."""
        worker = self._worker(key)
        while True:
            try:
                if record.started is None:
                    await self._tell_when_started(key)
                await ended(record.supervisor, worker.alive)
                record = await asyncio.to_thread(worker.read)
                await self._conclude(key, record)
                break
            except OSError as error:
                if error.errno in _OF_ITS_FILES:
                    await self._give_up(key, error)
                    break
                _log.warning("Worker %s/%s/%s cannot be watched (%s); trying again.", *key, error)
                await asyncio.sleep(1)
        self._watched.pop(key, None)

    async def _tell_when_started(self, key: Key) -> None:
        """Report the start of a worker that was being started when the previous scheduler died."""
        pause = 0.005
        while (record := await asyncio.to_thread(self._worker(key).read)).state is RecordState.ALIVE:
            if record.started is not None:
                self._tell(key, WorkerState.RUNNING, record.started)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.1)

    async def _conclude(self, key: Key, record: WorkerRecord) -> None:
        """A worker's supervisor is gone or never existed: make sure that its processes are gone too, and report its
        end."""
        if record.state is RecordState.UNCLAIMED:
            await asyncio.to_thread(self._worker(key).never)
        await asyncio.to_thread(self._clean_up, key, record)
        if record.state in (RecordState.LOST, RecordState.UNCLAIMED):
            unclaimed = record.state is RecordState.UNCLAIMED
            reason = f"it could not be started: {record.reason}" if unclaimed else record.reason
            fault = Fault.ENGINE if record.started is None else None
            self._tell(key, WorkerState.LOST, time.time(), reason=f"{reason.rstrip('.')}.", fault=fault)
        else:
            await self._tell_exit(key, record)

    async def _tell_exit(self, key: Key, record: WorkerRecord) -> None:
        """Report an exit, with the error from its log. A port taken by another process is no failure: the next attempt
        gets other ports."""
        at = time.time() if record.ended is None else record.ended
        code, worker = record.exit_code, self._worker(key)
        log = await asyncio.to_thread(_tail, worker.log) if code else ""
        speed = None if key[2] else await asyncio.to_thread(self._throughput, *key[:2])
        ports = await asyncio.to_thread(worker.ports) if log else ()
        exited = WorkerStatus(
            *key, WorkerState.EXITED, at, code, record.reason, throughput=speed, stopped=record.stopped
        )
        if self._report is not None:
            self._report(with_error(exited, log, ports, started=record.started is not None))

    def _throughput(self, job: JobId, attempt: int) -> float | None:
        reports = outputs.tail(self._folders.job(job).output, throughput.FILE, throughput.TAIL)
        return throughput.steps_per_second(reports, attempt)

    def _clean_up(self, key: Key, record: WorkerRecord) -> None:
        job, attempt, rank = key
        if record.unclean:
            clear(self._worker(key).status, identifying(job, attempt, rank, self._folders.job(job)))
        self._parts.release_worker(*key)
        folder = self._folders.attempt(job, attempt)
        if not any(worker.read().state in _TO_COME for _, worker in folder.workers()):
            folder.unmark()
            self.ports.give_back((job, attempt))

    def _tell(self, key: Key, state: WorkerState, at: float, **about: Any) -> None:
        if self._report is not None:
            self._report(WorkerStatus(*key, state, at, **about))

    def _worker(self, key: Key) -> WorkerFolder:
        return self._folders.attempt(key[0], key[1]).worker(key[2])

    # -- stopping -------------------------------------------------------------------------------------------

    async def stop(self, job: JobId, attempt: int, grace: float) -> None:
        for rank in await asyncio.to_thread(_stop, self._folders.attempt(job, attempt), grace):
            await self._take_up(job, attempt, rank)

    async def ask_to_save(self, job: JobId, attempt: int, until: float) -> None:
        await asyncio.to_thread(self._folders.job(job).ask_to_save, attempt, until)

    # -- sessions -------------------------------------------------------------------------------------------

    async def seat(self, seat: Seat) -> Grant:
        """Grant a session its GPUs by its environment: servers are not processes of this engine."""
        isolating = await asyncio.to_thread(self._parts.of_session, seat)
        return Grant({**visible(seat.workers, seat.nodes), **isolating})

    async def unseat(self, session: SessionId) -> None:
        await asyncio.to_thread(self._parts.release_session, session)

    # -- after a restart ------------------------------------------------------------------------------------

    async def recover(self, attempts: Iterable[tuple[JobId, int, int]]) -> frozenset[AttemptKey]:
        named = {(job, attempt): size for job, attempt, size in attempts}
        marked = await asyncio.to_thread(lambda: list(self._folders.marked()))
        await asyncio.gather(*(self._end_unnamed(*key) for key in marked if key not in named))
        never = set[AttemptKey]()
        rebooted = await asyncio.to_thread(lambda: self._folders.rebooted)
        for (job, attempt), size in named.items():
            try:
                if rebooted:
                    await asyncio.to_thread(_mark_lost, self._folders.attempt(job, attempt), size)
                if await self._find(job, attempt, size):
                    never.add(AttemptKey((job, attempt)))
            except OSError as error:
                for rank in range(size):
                    await self._give_up((job, attempt, rank), error)
        await asyncio.to_thread(self._folders.note_boot)
        await asyncio.to_thread(self._parts.sweep)
        return frozenset(never)

    async def _find(self, job: JobId, attempt: int, size: int) -> bool:
        """Adopt an attempt; True if nothing of it was ever started."""
        folder = self._folders.attempt(job, attempt)
        self.ports.keep((job, attempt), await asyncio.to_thread(folder.worker(0).ports))
        await asyncio.to_thread(_stop_again, folder, size)
        unclaimed = await asyncio.to_thread(_unclaimed, folder, size)
        if len(unclaimed) == size:
            return True
        # Complete the gang: the specifications of all workers were written before the first one was started.
        await asyncio.gather(*(self._launcher.start(folder.worker(rank).path) for rank in unclaimed))
        for rank in range(size):
            await self._take_up(job, attempt, rank)
        return False

    async def _give_up(self, key: Key, error: OSError) -> None:
        """The state of a worker cannot be determined: kill what may still run of it and report it as lost."""
        _log.error("Giving up on worker %s/%s/%s, whose files cannot be read: %s", *key, error)
        marks = identifying(*key, self._folders.job(key[0]))
        await asyncio.to_thread(clear, {}, marks)
        reason = f"it was lost: its files cannot be read ({error.strerror})."
        self._tell(key, WorkerState.LOST, time.time(), reason=reason)

    async def _end_unnamed(self, job: JobId, attempt: int) -> None:
        """Kill the processes of an unknown attempt and wait until they are gone: its GPUs count as free."""
        try:
            await self._end(job, attempt)
        except OSError as error:
            _log.error("The files of attempt %d of job %s cannot be cleaned up: %s", attempt, job, error)
            marks = identifying(job, attempt, 0, self._folders.job(job))
            await asyncio.to_thread(clear, {}, {name: marks[name] for name in marks if name != "RUNAI_RANK"})

    async def _end(self, job: JobId, attempt: int) -> None:
        folder = self._folders.attempt(job, attempt)
        await asyncio.to_thread(_stop, folder, 0.0)
        for rank, worker in await asyncio.to_thread(lambda: list(folder.workers())):
            await ended((await asyncio.to_thread(worker.read)).supervisor, worker.alive)
            await asyncio.to_thread(self._clean_up, (job, attempt, rank), await asyncio.to_thread(worker.read))
        await asyncio.to_thread(folder.unmark)


_TO_COME = frozenset({RecordState.UNCLAIMED, RecordState.ALIVE})
_OF_ITS_FILES = frozenset(
    {errno.EIO, errno.EACCES, errno.EPERM, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ESTALE}
)
"""Errors of one worker's files, as opposed to passing faults of the machine."""


def _stop(folder: AttemptFolder, grace: float) -> list[int]:
    """Stop the started workers of an attempt and prevent the others from starting; returns the ranks of those."""
    with contextlib.suppress(OSError):  # the disk is full: the job's own grace period applies
        folder.write_stop(grace, time.time())
    return [rank for rank, worker in folder.workers() if _stop_worker(worker)]


def _unclaimed(folder: AttemptFolder, size: int) -> list[int]:
    return [rank for rank in range(size) if folder.worker(rank).read().state is RecordState.UNCLAIMED]


def _mark_lost(folder: AttemptFolder, size: int) -> None:
    for rank in range(size):
        folder.worker(rank).mark_lost()


def _stop_again(folder: AttemptFolder, size: int) -> None:
    """Resume a stop that the previous scheduler began."""
    if folder.stopping:
        for rank in range(size):
            folder.worker(rank).path.mkdir(mode=0o700, exist_ok=True)
            _stop_worker(folder.worker(rank))


def _stop_worker(worker: WorkerFolder) -> bool:
    """Send SIGTERM to a worker's supervisor; True if it had not started and now never will."""
    if worker.never():
        return True
    record = worker.read()
    if record.state is RecordState.ALIVE:
        terminate(record.supervisor, lambda: worker.held_by(record.supervisor))
    return False


def _tail(log: Path) -> str:
    return outputs.read_part(log, max(0, outputs.size_of(log) - TAIL), TAIL).decode(errors="replace")
