"""What a job lives through, from being submitted to its end."""

from __future__ import annotations

from scheduler.model import JobState
from tests.controller.stage import Bench, make_job


async def test_a_job_runs_and_succeeds(bench: Bench) -> None:
    job = await bench.controller.submit(make_job())
    assert job.state is JobState.QUEUED
    running = await bench.reaches(job, JobState.RUNNING)
    assert running.reason == "Runs on n1."
    bench.engine.end(job.id, 1, 0, 0)
    done = await bench.reaches(job, JobState.SUCCEEDED)
    assert done.attempts[0].exit_codes == (0,)
    assert job.id not in bench.controller.book.jobs
