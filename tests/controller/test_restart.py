"""A scheduler that is stopped or killed, and started again: no job is lost, none runs twice, none is left running."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from scheduler.engines.base import WorkerState
from scheduler.model import JobState
from scheduler.store import JobFilter
from tests.controller.stage import POOL, World, begin, make_job, make_session, opened


async def test_running_jobs_keep_running_and_queued_ones_stay_queued(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        running = await bench.controller.submit(make_job(gpus=4))
        queued = await bench.controller.submit(make_job(gpus=4))
        session = await bench.controller.open_session(make_session())
        before = await bench.reaches(running, JobState.RUNNING)
    assert world.running() == {(running.id, 1)}
    async with opened(tmp_path, world) as bench:
        assert bench.controller.ready
        assert bench.controller.book.jobs[running.id] == before
        assert bench.controller.book.jobs[queued.id].state is JobState.QUEUED
        assert bench.controller.book.sessions[session.id] == session
        bench.engine.end(running.id, 1, 0, 0)
        await bench.reaches(queued, JobState.RUNNING)
    assert world.launches == [(running.id, 1), (queued.id, 1)]


async def test_a_changed_priority_survives_a_kill_and_the_submission_keeps_its_other_options(
    tmp_path: Path, world: World
) -> None:
    bench = await begin(tmp_path, world)
    await bench.controller.apply(POOL)
    waiting, ended = [await bench.controller.submit(make_job(gpus=4)) for _ in range(2)]
    for job in (waiting, ended):
        await bench.controller.set_priority(job.id, 70)
    await bench.controller.cancel(ended.id)
    await bench.crash()
    async with opened(tmp_path, world, pool=None) as bench:
        assert bench.controller.book.jobs[waiting.id].request == replace(waiting.request, priority=70)
        (found,) = await bench.controller.jobs(JobFilter(ids=[ended.id]))
        assert found.request.priority == 70


async def test_what_ended_meanwhile_has_its_own_exit_status(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        jobs = [await bench.controller.submit(make_job()) for _ in range(3)]
        for job in jobs:
            await bench.reaches(job, JobState.RUNNING)
        engine = bench.engine
    for job, code in zip(jobs, (0, 3, None), strict=True):
        engine.end(job.id, 1, 0, code)
    async with opened(tmp_path, world) as bench:
        await bench.reaches(jobs[0], JobState.SUCCEEDED)
        failed = await bench.reaches(jobs[1], JobState.FAILED)
        assert failed.reason == "It ended with exit code 3."
        await bench.settled()
        again = await bench.reaches(jobs[2], JobState.RUNNING)
        assert len(again.attempts) == 2


async def test_an_attempt_that_was_never_launched_is_launched_now(tmp_path: Path, world: World) -> None:
    """Killed after the attempt was durable and before the engine launched it."""
    bench = await begin(tmp_path, world)
    await bench.controller.apply(POOL)
    bench.engine.begins.clear()
    job = await bench.controller.submit(make_job())
    await bench.reaches(job, JobState.STARTING)
    await bench.crash()
    assert world.launches == []
    async with opened(tmp_path, world) as bench:
        running = await bench.reaches(job, JobState.RUNNING)
        assert len(running.attempts) == 1
    assert world.launches == [(job.id, 1)]


async def test_a_stop_is_repeated_after_a_restart(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world)
    bench.engine.stubborn = True
    job = await bench.controller.submit(make_job())
    await bench.reaches(job, JobState.RUNNING)
    await bench.controller.cancel(job.id)
    await bench.crash()
    async with opened(tmp_path, world) as bench:
        await bench.reaches(job, JobState.CANCELLED)
        assert bench.engine.stops == [(job.id, 1, 30.0)]


async def test_workers_of_unknown_attempts_are_stopped(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        job = await bench.controller.submit(make_job())
        await bench.reaches(job, JobState.RUNNING)
    for name in ("runai.sqlite", "runai.sqlite-wal", "runai.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    async with opened(tmp_path, world):
        assert world.running() == set()


async def test_the_longest_run_time_counts_from_the_start_not_from_the_restart(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world)
    job = await bench.controller.submit(make_job(max_runtime=0.3))
    running = await bench.reaches(job, JobState.RUNNING)
    await bench.crash()
    await asyncio.sleep(0.3)
    async with opened(tmp_path, world) as bench:
        failed = await bench.reaches(job, JobState.FAILED)
    assert failed.attempts[0].started == running.attempts[0].started
    assert "maximum run time" in failed.reason


async def test_a_gang_with_a_worker_that_ended_during_the_outage_ends_as_a_whole(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world)
    job = await bench.controller.submit(make_job(workers=3))
    await bench.reaches(job, JobState.RUNNING)
    await bench.crash()
    bench.engine.end(job.id, 1, 1, 9)
    async with opened(tmp_path, world) as bench:
        failed = await bench.reaches(job, JobState.FAILED)
    assert failed.reason == "Worker 2 of 3 (rank 1) ended with exit code 9."
    assert all(worker.state is WorkerState.EXITED for worker in world.workers[job.id, 1].values())
