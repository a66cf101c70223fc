"""A backend whose workers end on the test's command, or execute an `Act`; it fulfils the contract of backends.

All its state is in a `World`, which outlives schedulers.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduler.engines.backend import Backend
from scheduler.engines.base import Engine, Grant, Launch, Report, Seat, WorkerState, WorkerStatus
from scheduler.engines.contract import visible
from scheduler.engines.files import Area, FileInfo, JobFile, JobFiles, Reader, log_file, output_file
from scheduler.engines.leadership import Leadership
from scheduler.errors import Conflict, NotFound, Unavailable
from scheduler.model import AttemptKey, Fault, GpuKey, JobId, Node, Pool, SessionId
from scheduler.telemetry import GpuUsage, Inventory
from tests.engines import act
from tests.engines.act import DEAF, SAVES, Act

NO_SUCH_COMMAND = ("no-such-command",)
"""A worker with this command cannot be started."""


class Machines(Inventory):
    """Nodes that a test may change."""

    def __init__(self, *nodes: Node) -> None:
        self.there = nodes
        self.changed: Callable[[], None] = lambda: None
        self.use: Mapping[GpuKey, GpuUsage] = {}

    async def open(self, changed: Callable[[], None]) -> None:
        self.changed = changed

    async def close(self) -> None:
        self.changed = lambda: None

    def become(self, *nodes: Node) -> None:
        """Replace the nodes."""
        self.there = nodes
        self.changed()

    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        return self.there

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        return self.use


@dataclass
class World:
    """The state that outlives a scheduler: the workers, by (job, attempt) and rank, and all launches."""

    workers: dict[tuple[str, int], dict[int, WorkerStatus]] = field(default_factory=dict)
    launches: list[tuple[str, int]] = field(default_factory=list)
    placements: dict[tuple[str, int], Launch] = field(default_factory=dict)
    saved: dict[str, float] = field(default_factory=dict)
    asked: dict[tuple[str, int], float] = field(default_factory=dict)
    """Until when attempts were last asked to save their state."""
    seats: dict[str, Seat] = field(default_factory=dict)
    texts: dict[JobFile, bytes] = field(default_factory=dict)
    times: dict[JobFile, list[tuple[int, float]]] = field(default_factory=dict)
    """When texts had which length."""
    gone: frozenset[str] = frozenset()
    """Nodes on which no worker can be started."""
    played: set[asyncio.Task[None]] = field(default_factory=set)
    leader: ScriptedLeadership | None = None
    engine: ScriptedEngine | None = None
    """The open backend."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set and replaced when a worker has written or ended."""

    def take_over(self) -> bool:
        """Make another scheduler the leader; returns whether there was one."""
        before, self.leader = self.leader, None
        if before is not None:
            before.taken.set()
        return before is not None

    watching: list[Callable[[JobFile], None]] = field(default_factory=list)

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def write(self, file: JobFile, text: str) -> None:
        self.texts[file] = self.texts.get(file, b"") + text.encode()
        self.times.setdefault(file, []).append((len(self.texts[file]), time.time()))
        self.tell()
        for written in self.watching:
            written(file)

    def end(self, job: str, attempt: int, rank: int, code: int | None) -> None:
        """A worker's process ends."""
        assert self.engine is not None
        self.engine.end(job, attempt, rank, code)

    def running(self) -> set[tuple[str, int]]:
        return {
            attempt
            for attempt, workers in self.workers.items()
            if any(worker.state is WorkerState.RUNNING for worker in workers.values())
        }


class ScriptedEngine(Engine):
    """Workers in a `World`. A stopped one ends by SIGTERM immediately, or when the test ends it (`stubborn`).

    They run immediately, or on the test's command (`slow`).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.report: Report | None = None
        self.may_start: Callable[[JobId, int], bool] = lambda job, attempt: False
        self.stubborn = False
        self.refuse: Exception | None = None
        self.slow = False
        self.stops: list[tuple[str, int, float]] = []
        self.begins = asyncio.Event()
        """If cleared, launches do not begin."""
        self.begins.set()
        self.leaves = asyncio.Event()
        """If cleared, GPUs of sessions are not released."""
        self.leaves.set()

    def watch_refused(self, may_start: Callable[[JobId, int], bool]) -> None:
        self.may_start = may_start

    async def open(self, report: Report) -> None:
        self.report = report
        self.world.engine = self

    async def close(self) -> None:
        self.report = None

    async def launch(self, launch: Launch) -> None:
        await asyncio.sleep(0)
        await self.begins.wait()
        if self.refuse is not None:
            raise self.refuse
        for worker in launch.workers:
            if worker.node in self.world.gone:
                raise Unavailable(f"Node {worker.node} is gone.")
        attempt = (launch.job, launch.attempt)
        if attempt not in self.world.workers:
            self.world.launches.append(attempt)
            self.world.placements[attempt] = launch
            self.world.workers[attempt] = {}
            state = WorkerState.PENDING if self.slow else WorkerState.RUNNING
            for rank in range(len(launch.workers)):
                if launch.program.command == NO_SUCH_COMMAND:
                    ended = WorkerStatus(*attempt, rank, WorkerState.EXITED, time.time(), 127)
                    self.tell(replace(ended, fault=Fault.JOB))
                    continue
                self.tell(WorkerStatus(*attempt, rank, state, time.time()))
                if (what := self._act(*attempt)) != Act():
                    self.world.played.add(asyncio.create_task(_play(self.world, attempt, rank, what)))
        if any(stop[:2] == attempt for stop in self.stops):
            self._terminate(*attempt, 0)  # it was stopped before it had started

    async def stop(self, job: str, attempt: int, grace: float) -> None:
        self.stops.append((job, attempt, grace))
        self._terminate(job, attempt, grace)

    def _terminate(self, job: str, attempt: int, grace: float) -> None:
        what = self._act(job, attempt)
        for rank, worker in self.world.workers.get((job, attempt), {}).items():
            if worker.state.over or self.stubborn:
                continue
            if what.term == DEAF:
                asyncio.get_running_loop().call_later(grace, self.world.end, job, attempt, rank, -9)
            elif isinstance(what.term, int):
                self.world.saved[job] = time.time()
                self.end(job, attempt, rank, what.term)
            else:
                self.end(job, attempt, rank, -15)

    def _act(self, job: str, attempt: int) -> Act:
        launch = self.world.placements.get((job, attempt))
        return Act() if launch is None else act.read(launch.program.command)

    async def ask_to_save(self, job: str, attempt: int, until: float) -> None:
        running = [status for status in self.world.workers[job, attempt].values() if not status.state.over]
        if running and self.world.asked.get((job, attempt), 0.0) < until:
            self.world.asked[job, attempt] = until
            self.world.saved[job] = time.time()
            for status in running:
                self.world.write(log_file(status.job, attempt, status.rank), SAVES)

    async def recover(self, attempts: Iterable[tuple[JobId, int, int]]) -> frozenset[AttemptKey]:
        named = {AttemptKey((job, number)) for job, number, _ in attempts}
        for attempt in self.world.running() - named:
            for rank in self.world.workers[attempt]:
                self.end(*attempt, rank, -9)
        for attempt in named & self.world.workers.keys():
            for status in self.world.workers[attempt].values():
                assert self.report is not None
                self.report(status)
        return frozenset(named - self.world.workers.keys())

    async def seat(self, seat: Seat) -> Grant:
        await asyncio.sleep(0)
        if self.refuse is not None:
            raise self.refuse
        self.world.seats[seat.session] = seat
        return Grant(visible(seat.workers, seat.nodes))

    async def unseat(self, session: SessionId) -> None:
        await self.leaves.wait()
        self.world.seats.pop(session, None)

    def end(
        self,
        job: str,
        attempt: int,
        rank: int,
        code: int | None,
        *,
        at: float | None = None,
        throughput: float | None = None,
        fault: Fault | None = None,
        reason: str = "",
    ) -> None:
        """A worker's process ends; `None` loses it. `throughput` is its last report."""
        state = WorkerState.LOST if code is None else WorkerState.EXITED
        known = self.world.workers[job, attempt][rank]
        if not known.state.over:
            at = at or time.time()
            ended = replace(known, state=state, exit_code=code, at=at, throughput=throughput)
            self.tell(replace(ended, fault=fault, reason=reason))

    def tell(self, status: WorkerStatus) -> None:
        self.world.workers[status.job, status.attempt][status.rank] = status
        if self.report is not None:
            self.report(status)
        self.world.tell()


async def _play(world: World, attempt: tuple[JobId, int], rank: int, what: Act) -> None:
    """Execute a worker's actions with the open engine."""
    job, _ = attempt
    world.write(log_file(*attempt, rank), what.say)
    if what.writes:
        world.texts[output_file(job, what.writes)] = what.say.encode()
    if what.saves:
        world.saved[job] = time.time()
    while what.gate and not Path(what.gate).exists():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    world.end(*attempt, rank, what.code)


class ScriptedFiles(JobFiles):
    """The files of a `World`'s workers: texts, and the times of their saved states."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def read(self, file: JobFile, offset: int, limit: int) -> bytes:
        return self.world.texts.get(file, b"")[offset : offset + limit]

    async def log_times(self, log: JobFile) -> list[tuple[int, float]]:
        return self.world.times.get(log, [])

    async def grown(self, file: JobFile, offset: int) -> bool:
        attempt, _, rank = file.path.partition("/")
        while True:
            changed = self.world.changed
            if len(self.world.texts.get(file, b"")) > offset:
                return True
            worker = self.world.workers.get((file.job, int(attempt)), {}).get(int(rank))
            if worker is None or worker.state.over:
                return False
            await changed.wait()

    @contextlib.contextmanager
    def watch(self, job: str, attempt: int, workers: int, written: Callable[[Area], None]) -> Iterator[None]:
        def wrote(file: JobFile) -> None:
            if file.job == job:
                written(file.area)

        self.world.watching.append(wrote)
        try:
            yield
        finally:
            self.world.watching.remove(wrote)

    async def list(self, job: str, area: Area) -> tuple[FileInfo, ...]:
        _check(job)
        saved = self.world.saved.get(job) if area is Area.CHECKPOINT else None
        if saved is not None:
            return (FileInfo("state", 1, saved),)
        found = (file for file in self.world.texts if (file.job, file.area) == (job, area))
        return tuple(FileInfo(file.path, len(self.world.texts[file]), 0.0) for file in found)

    async def open_file(self, file: JobFile) -> Reader:
        if file not in self.world.texts:
            raise NotFound("There is no such file.")
        return _OpenText(self.world.texts[file])

    async def forget(self, job: str) -> None:
        if any(each == job for each, _ in self.world.running()):
            raise Conflict(f"Job {job} still has processes; cancel it first.")
        self.world.workers = {k: v for k, v in self.world.workers.items() if k[0] != job}
        self.world.texts = {k: v for k, v in self.world.texts.items() if k.job != job}
        self.world.saved.pop(job, None)

    async def kept(self) -> frozenset[JobId]:
        return frozenset(JobId(job) for job, _ in self.world.workers)


class _OpenText(Reader):
    def __init__(self, text: bytes) -> None:
        self._left = text
        self.size = len(text)

    async def read(self, limit: int) -> bytes:
        part, self._left = self._left[:limit], self._left[limit:]
        return part

    async def close(self) -> None:
        pass


def _check(job: str) -> None:
    if "/" in job:
        raise NotFound(f"There is no job {job!r}.")


class ScriptedLeadership(Leadership):
    """One scheduler at a time leads a `World`; the test may replace it (`take_over`)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.taken = asyncio.Event()

    async def acquire(self) -> None:
        if self.world.leader is not None:
            raise Conflict("Another scheduler leads.")
        self.world.leader = self

    async def lost(self) -> None:
        await self.taken.wait()

    async def release(self) -> None:
        if self.world.leader is self:
            self.world.leader = None


def scripted(world: World, *nodes: Node) -> Backend:
    """The backend of a `World` with these nodes."""
    return Backend(ScriptedEngine(world), ScriptedFiles(world), Machines(*nodes), ScriptedLeadership(world))
