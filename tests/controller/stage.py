"""Real stores, declared nodes, and an engine whose workers end when the test says so."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from scheduler.controller import Controller
from scheduler.engines.backend import Backend
from scheduler.engines.base import Engine, Launch, Report, WorkerState, WorkerStatus
from scheduler.engines.files import Area, FileInfo, JobFile, JobFiles, Reader
from scheduler.engines.leadership import Leadership
from scheduler.errors import NotFound, Unavailable
from scheduler.model import (
    ONE,
    Environment,
    Job,
    JobKind,
    JobState,
    Node,
    Pool,
    Program,
    Project,
    Request,
    Session,
    Shape,
    WorkerPlacement,
)
from scheduler.policy import Action, Decision, Plan, Snapshot, decide
from scheduler.store import Store
from scheduler.telemetry import GpuUsage, Inventory

ids = itertools.count(1)


class Machines(Inventory):
    """Nodes that a test may take away."""

    def __init__(self, *nodes: Node) -> None:
        self.there = nodes
        self.changed: Callable[[], None] = lambda: None
        self.use: Mapping[tuple[str, int], GpuUsage] = {}

    async def open(self, changed: Callable[[], None]) -> None:
        self.changed = changed

    async def close(self) -> None:
        self.changed = lambda: None

    def become(self, *nodes: Node) -> None:
        """These are the nodes from now on."""
        self.there = nodes
        self.changed()

    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        return self.there

    def usage(self, nodes: Iterable[Node]) -> Mapping[tuple[str, int], GpuUsage]:
        return self.use


@dataclass
class World:
    """What outlives a scheduler: the workers, by (job, attempt) and rank, and every launch there ever was."""

    workers: dict[tuple[str, int], dict[int, WorkerStatus]] = field(default_factory=dict)
    launches: list[tuple[str, int]] = field(default_factory=list)
    placements: dict[tuple[str, int], Launch] = field(default_factory=dict)
    saved: dict[str, float] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    """Nodes on which nothing can be started."""

    def running(self) -> set[tuple[str, int]]:
        return {
            attempt
            for attempt, workers in self.workers.items()
            if any(worker.state is WorkerState.RUNNING for worker in workers.values())
        }


class ScriptedEngine(Engine):
    """Workers in a `World`. One that is told to stop ends by SIGTERM at once, or when the test ends it (`stubborn`).

    They run at once, or once the test says so (`slow`).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.report: Report | None = None
        self.stubborn = False
        self.refuse: Exception | None = None
        self.slow = False
        self.stops: list[tuple[str, int, float]] = []
        self.begins = asyncio.Event()
        """Cleared: it begins with no launch."""
        self.begins.set()

    async def open(self, report: Report) -> None:
        self.report = report

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
                self.tell(WorkerStatus(*attempt, rank, state, time.time()))
        if any(stop[:2] == attempt for stop in self.stops):
            self._terminate(*attempt)  # it was told to stop before it had started

    async def stop(self, job: str, attempt: int, grace: float) -> None:
        self.stops.append((job, attempt, grace))
        self._terminate(job, attempt)

    def _terminate(self, job: str, attempt: int) -> None:
        if not self.stubborn:
            for rank, worker in self.world.workers.get((job, attempt), {}).items():
                if not worker.state.over:
                    self.end(job, attempt, rank, -15)

    async def recover(self, attempts: Iterable[tuple[str, int, int]]) -> frozenset[tuple[str, int]]:
        named = {(job, number) for job, number, _ in attempts}
        for attempt in self.world.running() - named:
            for rank in self.world.workers[attempt]:
                self.end(*attempt, rank, -9)
        for attempt in named & self.world.workers.keys():
            for status in self.world.workers[attempt].values():
                assert self.report is not None
                self.report(status)
        return frozenset(named - self.world.workers.keys())

    def end(
        self,
        job: str,
        attempt: int,
        rank: int,
        code: int | None,
        *,
        at: float | None = None,
        throughput: float | None = None,
    ) -> None:
        """A worker's process ends; `None` loses it. `throughput` is what it has reported."""
        state = WorkerState.LOST if code is None else WorkerState.EXITED
        known = self.world.workers[job, attempt][rank]
        if not known.state.over:
            at = at or time.time()
            self.tell(replace(known, state=state, exit_code=code, at=at, throughput=throughput))

    def tell(self, status: WorkerStatus) -> None:
        self.world.workers[status.job, status.attempt][status.rank] = status
        if self.report is not None:
            self.report(status)


class ScriptedFiles(JobFiles):
    """Jobs of a `World` leave nothing but the time at which they saved their state."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def read(self, file: JobFile, offset: int, limit: int) -> bytes:
        return b""

    async def grown(self, file: JobFile, offset: int) -> bool:
        return False

    async def list(self, job: str, area: Area) -> tuple[FileInfo, ...]:
        saved = self.world.saved.get(job) if area is Area.CHECKPOINT else None
        return () if saved is None else (FileInfo("state", 1, saved),)

    async def open_file(self, file: JobFile) -> Reader:
        raise NotFound("There are no files here.")

    async def forget(self, job: str) -> None:
        self.world.workers = {k: v for k, v in self.world.workers.items() if k[0] != job}

    async def kept(self) -> frozenset[str]:
        return frozenset(job for job, _ in self.world.workers)


class Alone(Leadership):
    """There is no other scheduler."""

    async def acquire(self) -> None:
        pass

    async def lost(self) -> None:
        await asyncio.Event().wait()

    async def release(self) -> None:
        pass


def first_come(snapshot: Snapshot) -> Plan:
    """The plainest policy: whoever has a nomination, or else asked first, starts where it fits; nobody is stopped."""
    environments = {node_pool.name: node_pool.environment for node_pool in snapshot.pool.node_pools}
    free = {(node.name, gpu): ONE for node in snapshot.nodes for gpu in range(node.gpus)}
    for workload in snapshot.workloads:
        for worker in workload.placement:
            for gpu in worker.gpus:
                free[worker.node, gpu] = free.get((worker.node, gpu), 0) - worker.share
    decisions = {w.id: Decision(Action.KEEP) for w in snapshot.workloads if w.running}
    for workload in snapshot.workloads:
        own = workload.placement if workload.stopping else ()
        if workload.nomination and _take(free, workload.nomination, own):
            action = Action.KEEP if workload.running else Action.START
            decisions[workload.id] = Decision(action, placement=workload.nomination)
    waiting = [w for w in snapshot.workloads if not w.running and w.id not in decisions]
    for position, workload in enumerate(sorted(waiting, key=lambda w: (w.submitted, w.id)), 1):
        nodes = [n for n in snapshot.nodes if environments[n.node_pool] is workload.request.environment]
        placement = _fit(workload.request, nodes, dict(free))
        if placement is None:
            reason = f"Waits for {workload.request.workers} workers' GPUs to become free."
            decisions[workload.id] = Decision(Action.WAIT, reason, position=position)
            continue
        decisions[workload.id] = Decision(Action.START, placement=placement)
        for worker in placement:
            for gpu in worker.gpus:
                free[worker.node, gpu] -= worker.share
    return Plan(decisions, {})


def nobody_starts(snapshot: Snapshot) -> Plan:
    """The plan of a scheduler that is killed before anybody has started."""
    plan = decide(snapshot)
    starts = {id: d for id, d in plan.decisions.items() if d.action is Action.START}
    later = {id: replace(decision, after=("somebody",)) for id, decision in starts.items()}
    return replace(plan, decisions={**plan.decisions, **later}, changes={**plan.changes, **later})


def _take(
    free: dict[tuple[str, int], int],
    nomination: tuple[WorkerPlacement, ...],
    own: tuple[WorkerPlacement, ...],
) -> bool:
    """Take places if they are free, but for what their owner itself still holds of them."""
    needs: Counter[tuple[str, int]] = Counter()
    for worker in nomination:
        needs.update({(worker.node, gpu): worker.share for gpu in worker.gpus})
    for worker in own:
        needs.subtract({(worker.node, gpu): worker.share for gpu in worker.gpus if needs[worker.node, gpu]})
    if any(free.get(gpu, 0) < share for gpu, share in needs.items()):
        return False
    for gpu, share in needs.items():
        free[gpu] -= max(0, share)
    return True


def _fit(
    request: Request, nodes: list[Node], free: dict[tuple[str, int], int]
) -> tuple[WorkerPlacement, ...] | None:
    placement: list[WorkerPlacement] = []
    share, count = min(request.shape.gpus, ONE), max(1, request.shape.gpus // ONE)
    for _ in range(request.workers):
        for node in nodes:
            gpus = [gpu for gpu in range(node.gpus) if free[node.name, gpu] >= share][:count]
            if len(gpus) == count:
                break
        else:
            return None
        for gpu in gpus:
            free[node.name, gpu] -= share
        placement.append(WorkerPlacement(node.name, tuple(gpus), share))
    return tuple(placement)


def make_job(
    project: str = "default", *, gpus: float = 1, workers: int = 1, user: str = "ana", **more: object
) -> Job:
    program = {
        key: more.pop(key) for key in ("grace", "max_runtime", "idle_timeout", "retries") if key in more
    }
    request = {key: more.pop(key) for key in list(more) if key in Request.__dataclass_fields__}
    request.setdefault("min_workers", workers)
    return Job(
        id=f"job{next(ids):05}",
        name="train",
        reason="Waiting for its turn.",
        request=Request(project, user, shape=Shape(int(gpus * ONE)), workers=workers, **request),  # type: ignore[arg-type]
        program=Program(JobKind.COMMAND, ("train",), **program),  # type: ignore[arg-type]
        submitted=time.time(),
        **more,  # type: ignore[arg-type]
    )


def make_session(user: str = "ana", *, gpus: float = 1, server: str = "") -> Session:
    request = Request(
        "", user, environment=Environment.BUILD, shape=Shape(int(gpus * ONE)), preemptible=False
    )
    return Session(id=f"session{next(ids):05}", server=server, request=request, requested=time.time())


class Disk:
    """The disk below every store of this process. When it is `full` the next transaction fails, whichever it is."""

    def __init__(self) -> None:
        self.full = False
        event.listen(sqlalchemy.Engine, "commit", self._commit)

    def _commit(self, connection: sqlalchemy.Connection) -> None:
        if self.full:
            self.full = False
            raise OperationalError("COMMIT", None, OSError("disk full"))


DISK = Disk()


@dataclass
class Bench:
    """A controller at work on the state in a folder, and what a test needs to watch it."""

    folder: Path
    controller: Controller
    engine: ScriptedEngine
    files: ScriptedFiles
    machines: Machines
    store: Store

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for the event after which something holds."""
        async with asyncio.timeout(10):
            if holds():
                return
            async for _ in self.controller.events(self.controller.book.last_event):
                if holds():
                    return

    async def reaches(self, job: Job, *states: JobState) -> Job:
        """Wait until a job is in one of these states."""
        events = self.controller.events(0)
        async with asyncio.timeout(10):
            now = await self.controller.job(job.id)
            while now is None or now.state not in states:
                await anext(events)
                now = await self.controller.job(job.id)
        await events.aclose()
        return now

    async def settled(self) -> None:
        """Wait until nothing more happens by itself, not even when everything is looked at again."""
        self.controller.refresh()
        async with asyncio.timeout(30):
            await self.controller.settle()

    async def crash(self) -> None:
        """End as by `kill -9`: what is not on disk is lost, and nobody is told anything more."""
        self.store.abort()
        await self.controller.abort()

    async def reasons(self, job: Job) -> list[str]:
        """Every reason that was told of a job, oldest first."""
        events = await self.store.events(0)
        return [str((e.data or {}).get("reason")) for e in events if e.subject == job.id]


POOL = Pool(
    projects=(
        Project("default", members=frozenset({"*"})),
        Project("speech", guaranteed=2 * ONE),
        Project("vision", guaranteed=2 * ONE),
        Project("research"),
        Project("nlp", parent="research", limit=2 * ONE),
    )
)

NODES = (
    Node("box-build", gpus=2, node_pool="build", declared=True),
    Node("n1", gpus=4, gpu_type="A100", declared=True),
)


async def begin(
    folder: Path,
    world: World,
    *nodes: Node,
    decide: Callable[[Snapshot], Plan] = first_come,
    clock: Callable[[], float] = time.time,
) -> Bench:
    """A scheduler starts on the state in `folder`."""
    DISK.full = False
    store = Store(f"sqlite:///{folder}/runai.sqlite")
    store.open()
    engine, files, machines = ScriptedEngine(world), ScriptedFiles(world), Machines(*(nodes or NODES))
    controller = Controller(store, Backend(engine, files, machines, Alone()), decide=decide, clock=clock)
    await controller.start()
    return Bench(folder, controller, engine, files, machines, store)


@asynccontextmanager
async def opened(
    folder: Path,
    world: World,
    *nodes: Node,
    pool: Pool | None = POOL,
    decide: Callable[[Snapshot], Plan] = first_come,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Bench]:
    """A scheduler that is stopped in good order afterwards."""
    bench = await begin(folder, world, *nodes, decide=decide, clock=clock)
    try:
        if pool is not None:
            await bench.controller.apply(pool)
        yield bench
    finally:
        await bench.controller.stop()
        bench.store.close()
