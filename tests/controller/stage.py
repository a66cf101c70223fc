"""Real stores, declared nodes, and the scripted engine."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from scheduler.controller import Controller
from scheduler.engines.backend import Backend
from scheduler.model import (
    BUILD_POOL,
    ONE,
    Environment,
    GpuType,
    Job,
    JobId,
    JobKind,
    JobState,
    Node,
    NodeName,
    Pool,
    Program,
    Project,
    ProjectName,
    Request,
    Session,
    SessionId,
    Shape,
    UserName,
    WorkerPlacement,
)
from scheduler.policy import Action, Decision, Plan, Snapshot, decide
from scheduler.store import EventRecord, Store
from tests.engines.scripted import Machines, ScriptedEngine, ScriptedFiles, ScriptedLeadership
from tests.engines.scripted import World as World

ids = itertools.count(1)


def first_come(snapshot: Snapshot) -> Plan:
    """The simplest policy: nominated jobs, then those submitted first, start where they fit; no job is stopped."""
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
    return Plan(decisions, {}, changes=decisions)


def nobody_starts(snapshot: Snapshot) -> Plan:
    """The plan of a scheduler that is killed before any job has started."""
    plan = decide(snapshot)
    starts = {id: d for id, d in plan.decisions.items() if d.action is Action.START}
    later = {id: replace(decision, after=(JobId("somebody"),)) for id, decision in starts.items()}
    return replace(plan, decisions={**plan.decisions, **later}, changes={**plan.changes, **later})


def _take(
    free: dict[tuple[NodeName, int], int],
    nomination: tuple[WorkerPlacement, ...],
    own: tuple[WorkerPlacement, ...],
) -> bool:
    """Take the nominated places if they are free or held by the same workload."""
    needs: Counter[tuple[NodeName, int]] = Counter()
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
    request: Request, nodes: list[Node], free: dict[tuple[NodeName, int], int]
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


def make_job(project: str = "default", *, gpus: float = 1, workers: int = 1, user: str = "ana", **more: object) -> Job:
    program = {key: more.pop(key) for key in ("grace", "max_runtime", "idle_timeout", "retries") if key in more}
    request = {key: more.pop(key) for key in list(more) if key in Request.__dataclass_fields__}
    request.setdefault("min_workers", workers)
    return Job(
        id=JobId(f"job{next(ids):05}"),
        name="train",
        reason="Waiting for its turn.",
        request=Request(project, user, shape=Shape(int(gpus * ONE)), workers=workers, **request),  # type: ignore[arg-type]
        program=Program(JobKind.COMMAND, ("train",), **program),  # type: ignore[arg-type]
        submitted=time.time(),
        **more,  # type: ignore[arg-type]
    )


def make_session(user: str = "ana", *, gpus: float = 1, server: str = "") -> Session:
    request = Request(
        ProjectName(""), UserName(user), environment=Environment.BUILD, shape=Shape(int(gpus * ONE)), preemptible=False
    )
    return Session(id=SessionId(f"session{next(ids):05}"), server=server, request=request, requested=time.time())


class Disk:
    """The disk of every store in this process. When it is `full`, the next transaction fails."""

    def __init__(self) -> None:
        self.full = False
        event.listen(sqlalchemy.Engine, "commit", self._commit)

    def _commit(self, connection: sqlalchemy.Connection) -> None:
        if self.full:
            self.full = False
            raise OperationalError("COMMIT", None, OSError("disk full"))


DISK = Disk()


class Woken(asyncio.Event):
    """Set on every notice of the controller."""

    def happened(self, events: Sequence[EventRecord]) -> None:
        self.set()

    def decided(self) -> None:
        self.set()

    def ended(self) -> None:
        self.set()


@dataclass
class Bench:
    """A running controller with its state in a folder, and what a test needs to watch it."""

    folder: Path
    controller: Controller
    engine: ScriptedEngine
    files: ScriptedFiles
    machines: Machines
    store: Store

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for the event, plan or forecast after which the condition holds."""
        woken = Woken()
        self.controller.watch(woken)
        async with asyncio.timeout(10):
            while not holds():
                await woken.wait()
                woken.clear()

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
        """Wait until nothing changes by itself, not even after another full pass."""
        self.controller.refresh()
        async with asyncio.timeout(30):
            await self.controller.settle()

    async def crash(self) -> None:
        """End as by `kill -9`: what is not on disk is lost, and no more notices are sent."""
        self.store.abort()
        await self.controller.abort()

    async def reasons(self, job: Job) -> list[str]:
        """Every published reason of a job, oldest first."""
        events = await self.store.events(0)
        return [str((e.data or {}).get("reason")) for e in events if e.subject == job.id]


POOL = Pool(
    projects=(
        Project(ProjectName("default"), members=frozenset({UserName("*")})),
        Project(ProjectName("speech"), guaranteed=2 * ONE),
        Project(ProjectName("vision"), guaranteed=2 * ONE),
        Project(ProjectName("research")),
        Project(ProjectName("nlp"), parent=ProjectName("research"), limit=2 * ONE),
    )
)

NODES = (
    Node(NodeName("box-build"), gpus=2, node_pool=BUILD_POOL, declared=True),
    Node(NodeName("n1"), gpus=4, gpu_type=GpuType("A100"), declared=True),
)


async def begin(
    folder: Path,
    world: World,
    *nodes: Node,
    decide: Callable[[Snapshot], Plan] = first_come,
    clock: Callable[[], float] = time.time,
) -> Bench:
    """Start a scheduler on the state in `folder`."""
    DISK.full = False
    store = Store(f"sqlite:///{folder}/runai.sqlite")
    store.open()
    engine, files, machines = ScriptedEngine(world), ScriptedFiles(world), Machines(*(nodes or NODES))
    controller = Controller(
        store, Backend(engine, files, machines, ScriptedLeadership(world)), decide=decide, clock=clock
    )
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
    """A scheduler that is stopped cleanly afterwards."""
    bench = await begin(folder, world, *nodes, decide=decide, clock=clock)
    try:
        if pool is not None:
            await bench.controller.apply(pool)
        yield bench
    finally:
        await bench.controller.stop()
        bench.store.close()
