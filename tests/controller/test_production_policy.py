"""The controller with the production policy: promises of the README, checked end to end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler.model import JobState
from scheduler.policy import decide
from tests.controller.stage import POOL, Bench, World, begin, make_job, make_session, nobody_starts, opened


async def test_a_project_reclaims_its_guarantee_and_the_victim_resumes(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=decide) as bench:
        sweep = [await bench.controller.submit(make_job(user="ana")) for _ in range(4)]
        for job in sweep:
            await bench.reaches(job, JobState.RUNNING)
        speech = await bench.controller.submit(make_job("speech", gpus=2, user="bo"))
        await bench.reaches(speech, JobState.RUNNING)
        await bench.settled()
        paused = [job for job in sweep if bench.controller.book.jobs[job.id].state is JobState.QUEUED]
        assert len(paused) == 2
        for job in paused:
            assert any("speech" in reason for reason in await bench.reasons(job))
            waits = bench.controller.book.plan.decisions[job.id]
            assert waits.reason
            assert waits.position is not None
        bench.engine.end(speech.id, 1, 0, 0)
        for job in paused:
            again = await bench.reaches(job, JobState.RUNNING)
            assert len(again.attempts) == 2


@pytest.mark.parametrize("killed", [False, True])
async def test_a_job_that_waits_for_victims_keeps_its_nomination(tmp_path: Path, world: World, killed: bool) -> None:
    bench = await begin(tmp_path, world, decide=decide)
    await bench.controller.apply(POOL)
    bench.engine.stubborn = True
    sweep = [await bench.controller.submit(make_job(user="ana")) for _ in range(4)]
    for job in sweep:
        await bench.reaches(job, JobState.RUNNING)
    speech = await bench.controller.submit(make_job("speech", gpus=2, user="bo"))
    await bench.settled()
    jobs = bench.controller.book.jobs
    victims = [job.id for job in sweep if jobs[job.id].state is JobState.STOPPING]
    assert len(victims) == 2
    promised = bench.controller.book.plan.decisions[speech.id].placement
    if killed:
        await bench.crash()
        bench = await begin(tmp_path, world, decide=nobody_starts)
        await bench.settled()
    (waits,) = [w for w in bench.controller.snapshot().workloads if w.id == speech.id]
    assert not waits.running
    assert waits.nomination == promised
    if killed:
        await bench.crash()
        bench = await begin(tmp_path, world, decide=decide)
    for victim in victims:
        bench.engine.end(victim, 1, 0, -15)
    started = await bench.reaches(speech, JobState.RUNNING)
    assert (started.placement, started.nomination) == (promised, ())
    await bench.controller.stop()
    bench.store.close()


async def test_all_jobs_end(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=decide) as bench:
        await bench.controller.open_session(make_session())
        jobs = [
            await bench.controller.submit(
                make_job(project, gpus=gpus, workers=workers, user=f"user{n}", priority=n % 3)
            )
            for n, (project, gpus, workers) in enumerate(
                [("default", 1, 4), ("speech", 0.5, 1), ("vision", 1, 2), ("nlp", 2, 1), ("default", 4, 1)] * 4
            )
        ]
        async with asyncio.timeout(30):
            while bench.controller.book.jobs:
                await bench.settled()
                _end_all(bench)
        for job in jobs:
            assert (await bench.reaches(job, JobState.SUCCEEDED)).ended is not None


def _end_all(bench: Bench) -> None:
    for attempt in bench.engine.world.running():
        for rank in bench.engine.world.workers[attempt]:
            bench.engine.end(*attempt, rank, 0)
