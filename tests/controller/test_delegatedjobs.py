"""Jobs whose placement is delegated to another scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from scheduler.controller import Controller
from scheduler.engines.backend import Backend, Delegation
from scheduler.engines.base import PlacementStatus, UnplacedAttempt
from scheduler.model import After, AttemptKey, Fault, Job, JobId, JobState, NodeName
from scheduler.policy import SnapshotPlanner
from scheduler.store import Store
from tests.controller.stage import NODES, POOL, Bench, World, make_job, make_session
from tests.engines.scripted import Machines, ScriptedEngine, ScriptedFiles, ScriptedLeadership


class ByTheTest(Delegation):
    """Jobs are placed by the test. `line` are the attempts that are delegated."""

    scheduler = "Kueue"

    def __init__(self) -> None:
        self.line: dict[tuple[str, int], UnplacedAttempt | None] = {}

    def watch(self, report: Callable[[PlacementStatus], None], delegated: Collection[AttemptKey]) -> None:
        self.placed = report
        self.line.update(dict.fromkeys(delegated))

    async def delegate(self, wanted: UnplacedAttempt) -> None:
        self.line[wanted.launch.job, wanted.launch.attempt] = wanted

    async def withdraw(self, job: JobId, attempt: int) -> None:
        del self.line[job, attempt]

    def place(self, job: Job, *nodes: str, attempt: int = 1) -> None:
        self.placed(PlacementStatus(job.id, attempt, nodes=tuple(map(NodeName, nodes))))


@asynccontextmanager
async def opened(folder: Path, world: World) -> AsyncIterator[tuple[Bench, ScriptedEngine, ByTheTest]]:
    store = Store(f"sqlite:///{folder}/runai.sqlite")
    store.open()
    engine, files, machines, delegation = ScriptedEngine(world), ScriptedFiles(world), Machines(*NODES), ByTheTest()
    backend = Backend(engine, files, machines, ScriptedLeadership(world), delegation=delegation)
    controller = Controller(store, backend, decide=SnapshotPlanner())
    await controller.start()
    try:
        yield Bench(folder, controller, engine, files, machines, store), engine, delegation
    finally:
        await controller.stop()
        store.close()


def reason(bench: Bench, job: Job) -> str:
    decision = bench.controller.book.decision(job.id)
    return "" if decision is None else decision.reason


async def test_jobs_start_where_they_are_placed_once_their_gpus_are_free(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as (bench, engine, other):
        await bench.controller.apply(POOL)
        elastic = await bench.controller.submit(make_job(gpus=1, workers=4, min_workers=2))
        whole = await bench.controller.submit(make_job(gpus=3))
        await bench.until(lambda: reason(bench, whole) == "Kueue decides when it starts.")
        await bench.until(lambda: (elastic.id, 1) in other.line)
        wanted = other.line[elastic.id, 1]
        assert wanted is not None
        assert len(wanted.launch.workers) == 2, "nobody would shrink it for others"
        assert wanted.node_pools == ("train",)
        assert (await bench.controller.dry_run(make_job())).decision.reason == "Kueue decides when it starts."

        other.place(elastic, "n1", "n1")
        first = await bench.reaches(elastic, JobState.RUNNING)
        assert [worker.gpus for worker in first.placement] == [(0,), (1,)]
        other.placed(PlacementStatus(whole.id, 1, reason="Kueue: no quota."))
        await bench.until(lambda: reason(bench, whole) == "Kueue: no quota.")
        other.place(whole, "n1")
        session = await bench.controller.open_session(make_session())
        assert session.placement[0].node == "box-build", "notebooks are placed as always"
        await bench.settled()
        assert bench.controller.book.jobs[whole.id].state is JobState.QUEUED, "these GPUs are in use"
        assert bench.controller.book.jobs[elastic.id].placement == first.placement, "it does not grow either"
        for rank in range(2):
            engine.end(elastic.id, 1, rank, 0)
        assert (await bench.reaches(whole, JobState.RUNNING)).placement[0].gpus == (0, 1, 2)


async def test_only_jobs_that_may_start_are_delegated_also_after_a_restart(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as (bench, engine, other):
        first = await bench.controller.submit(make_job())
        after = await bench.controller.submit(make_job(after=(After(first.id),)))
        paused = await bench.controller.submit(make_job())
        await bench.settled()
        await bench.until(lambda: other.line.keys() == {(first.id, 1), (paused.id, 1)})
        await bench.controller.pause(paused.id)
        await bench.until(lambda: other.line.keys() == {(first.id, 1)})
    async with opened(tmp_path, world) as (bench, engine, other):
        await bench.settled()
        await bench.until(lambda: other.line.keys() == {(first.id, 1)})
        other.place(first, "n1")
        await bench.reaches(first, JobState.RUNNING)
        await bench.controller.resume(paused.id)
        await bench.until(lambda: (paused.id, 1) in other.line)
        assert (first.id, 1) in other.line, "what has started is not withdrawn"
        engine.end(first.id, 1, 0, 0)
        await bench.until(lambda: (after.id, 1) in other.line)
        await bench.controller.cancel(paused.id)
        await bench.until(lambda: (paused.id, 1) not in other.line)


async def test_a_job_that_was_stopped_for_others_is_delegated_again_and_avoids_no_node(
    tmp_path: Path, world: World
) -> None:
    async with opened(tmp_path, world) as (bench, engine, other):
        job = await bench.controller.submit(make_job(gpus=2))
        await bench.until(lambda: (job.id, 1) in other.line)
        other.place(job, "n1")
        await bench.reaches(job, JobState.RUNNING)
        engine.end(job.id, 1, 0, None, fault=Fault.OTHERS, reason="Kueue stopped it.")
        await bench.until(lambda: (job.id, 2) in other.line)
        queued = bench.controller.book.jobs[job.id]
        assert (queued.attempts[0].ending, queued.reason, queued.avoids) == ("preempted", "Kueue stopped it.", ())
