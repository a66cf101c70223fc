"""The pool changes while jobs run on it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.engines.base import Launch
from scheduler.errors import Conflict
from scheduler.model import TRAIN_POOL, Environment, JobState, NodeName, NodePool, Pool, Project, ProjectName
from tests.controller.stage import NODES, POOL, Bench, World, make_job, make_session, opened


async def test_an_applied_pool_is_durable_and_published(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, pool=None) as bench:
        assert bench.controller.book.pool == Pool()
        await bench.controller.apply(POOL)
        assert bench.controller.book.pool == POOL
        events = [(e.kind, e.subject, e.data) for e in await bench.store.events(0)]
        assert events[0] == ("pool.changed", "pool", None)
        assert ("project.changed", "vision", {"change": "added"}) in events
    async with opened(tmp_path, world, pool=None) as bench:
        assert bench.controller.book.pool == POOL


async def test_the_same_pool_again_is_no_change(bench: Bench) -> None:
    before = bench.controller.book.last_event
    await bench.controller.apply(replace(POOL))
    assert bench.controller.book.last_event == before


async def test_a_pool_that_would_break_workloads_is_refused(bench: Bench) -> None:
    job = await bench.controller.submit(make_job("vision"))
    await bench.reaches(job, JobState.RUNNING)
    with pytest.raises(Conflict, match="vision"):
        await bench.controller.apply(replace(POOL, projects=(Project(ProjectName("default")),)))
    with pytest.raises(Conflict, match="node pools"):
        await bench.controller.apply(replace(POOL, node_pools=(NodePool(TRAIN_POOL, Environment.TRAIN),)))
    assert bench.controller.book.pool == POOL


async def test_more_nodes_are_used_at_once(bench: Bench) -> None:
    jobs = [await bench.controller.submit(make_job(gpus=4)) for _ in range(2)]
    await bench.reaches(jobs[0], JobState.RUNNING)
    bench.machines.become(*NODES, replace(NODES[1], name=NodeName("n2")))
    assert (await bench.reaches(jobs[1], JobState.RUNNING)).placement[0].node == "n2"


async def test_workloads_of_a_removed_node_resume_elsewhere(tmp_path: Path, world: World) -> None:
    n2 = replace(NODES[1], name=NodeName("n2"))
    async with opened(tmp_path, world, *NODES, n2) as bench:
        whole = await bench.controller.submit(make_job(gpus=4))
        half = await bench.controller.submit(make_job(gpus=2))
        other = await bench.controller.submit(make_job(gpus=2))
        for job in (whole, half, other):
            await bench.reaches(job, JobState.RUNNING)
        session = await bench.controller.open_session(make_session())
        bench.machines.become(n2)
        waiting = await bench.reaches(whole, JobState.QUEUED)
        assert "Node n1 is gone." in waiting.reason
        assert bench.controller.book.jobs[half.id].state is JobState.RUNNING
        await bench.until(lambda: session.id not in bench.controller.book.sessions)
        for job in (half, other):
            bench.engine.end(job.id, 1, 0, 0)
        assert (await bench.reaches(whole, JobState.RUNNING)).placement[0].node == "n2"


async def test_a_launch_on_a_removed_node_never_runs_in_parallel_with_the_next_attempt(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    n2 = replace(NODES[1], name=NodeName("n2"))
    async with opened(tmp_path, world, *NODES, n2) as bench:
        launch, under_way, go_on = bench.engine.launch, asyncio.Event(), asyncio.Event()

        async def slow_launch(order: Launch) -> None:
            under_way.set()
            await go_on.wait()
            await launch(order)

        monkeypatch.setattr(bench.engine, "launch", slow_launch)
        job = await bench.controller.submit(make_job(gpus=4))
        await under_way.wait()
        assert bench.controller.book.jobs[job.id].placement[0].node == "n1"
        bench.machines.become(n2)
        go_on.set()
        await bench.until(lambda: (job.id, 2) in world.running())
        assert world.running() == {(job.id, 2)}
        assert world.placements[job.id, 2].workers[0].node == "n2"
