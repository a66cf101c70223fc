"""The forecast: when waiting jobs are likely to start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scheduler.model import JobState
from scheduler.policy import decide
from scheduler.policy.similar import ENOUGH
from tests.controller.stage import World, make_job, opened


async def test_a_waiting_job_has_an_estimated_start(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=decide) as bench:
        first = await bench.controller.submit(make_job(gpus=4, expected_runtime=1000.0))
        running = await bench.reaches(first, JobState.RUNNING)
        begun = running.attempts[0].started
        assert begun is not None
        second = await bench.controller.submit(make_job(gpus=4, expected_runtime=500.0))
        third = await bench.controller.submit(make_job(gpus=4))
        book = bench.controller.book
        await bench.until(lambda: third.id in book.forecast.starts)
        decisions = [book.decision(job.id) for job in (second, third)]
        assert [(d.position, d.estimated_start) for d in decisions if d] == [
            (1, begun + 1000),
            (2, begun + 1500),
        ]
        errors: list[float] = []
        bench.controller.watch_forecasts(errors.append)
        bench.engine.end(first.id, 1, 0, 0)
        await bench.reaches(second, JobState.RUNNING)
        (error,) = errors
        assert 0 < error <= 1000  # it was to run for 1,000 s, and ended immediately


async def test_jobs_of_the_same_size_are_used_where_no_similar_one_has_ended(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=decide) as bench:
        for name in "abcdefgh"[:ENOUGH]:
            job = await bench.controller.submit(replace(make_job(gpus=4), name=name))
            await bench.reaches(job, JobState.RUNNING)
            bench.engine.end(job.id, 1, 0, 0)
            await bench.reaches(job, JobState.SUCCEEDED)
        running = await bench.controller.submit(replace(make_job(gpus=4), name="y"))
        waiting = await bench.controller.submit(replace(make_job(gpus=4), name="z"))
        book = bench.controller.book
        await bench.until(lambda: waiting.id in book.forecast.starts)
        assert len(book.run_times.runs_like(running)) == ENOUGH


async def test_without_known_run_times_there_are_no_estimates(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=decide) as bench:
        await bench.controller.submit(make_job(gpus=4))
        waiting = await bench.controller.submit(make_job(gpus=4))
        await bench.settled()
        decision = bench.controller.book.decision(waiting.id)
        assert decision is not None
        assert decision.estimated_start is None
