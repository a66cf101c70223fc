"""The party at fault decides what happens to a job that did not run: it fails, moves elsewhere, or waits."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.controller import lifecycle
from scheduler.engines.base import WorkerState, WorkerStatus
from scheduler.errors import Unavailable
from scheduler.model import Fault, Job, JobState, NodeName
from scheduler.policy import decide
from tests.controller.stage import NODES, Bench, World, begin, make_job, opened

N2 = replace(NODES[1], name=NodeName("n2"))


def stands(bench: Bench, job: Job, state: WorkerState, reason: str = "", fault: Fault | None = None) -> None:
    """The engine reports the state of the job's only worker."""
    attempt = len(bench.controller.book.jobs[job.id].attempts)
    bench.engine.tell(WorkerStatus(job.id, attempt, 0, state, time.time(), reason=reason, fault=fault))


async def test_running_is_reported_after_the_launch(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        bench.engine.slow = True
        job = await bench.controller.submit(make_job())
        await bench.until(lambda: (job.id, 1) in world.workers)
        stands(bench, job, WorkerState.PULLING, "the image a/b is being pulled")
        await bench.until(lambda: "a/b" in bench.controller.book.jobs[job.id].reason)
        assert bench.controller.book.jobs[job.id].state is JobState.STARTING
        stands(bench, job, WorkerState.RUNNING)
        stands(bench, job, WorkerState.PULLING)  # a late report
        await bench.reaches(job, JobState.RUNNING)
        assert (await bench.reasons(job))[-3:] == [
            "Starts on n1: its node has not started it yet.",
            "Starts on n1: the image a/b is being pulled.",
            "Runs on n1.",
        ]


async def test_a_launch_under_way_is_found_after_a_restart(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world)
    bench.engine.slow = True
    job = await bench.controller.submit(make_job())
    await bench.until(lambda: (job.id, 1) in world.workers)
    stands(bench, job, WorkerState.PULLING)
    await bench.crash()
    async with opened(tmp_path, world) as bench:
        assert bench.controller.book.jobs[job.id].state is JobState.STARTING
        stands(bench, job, WorkerState.RUNNING)
        await bench.reaches(job, JobState.RUNNING)
    assert world.launches == [(job.id, 1)]


async def test_a_node_that_cannot_run_a_job_is_avoided_also_after_a_restart(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world, *NODES, N2, decide=decide)
    job = await bench.reaches(await bench.controller.submit(make_job()), JobState.RUNNING)
    first = job.placement[0].node
    stands(bench, job, WorkerState.LOST, "it was evicted: the node is out of disk", Fault.PLACE)
    await bench.until(lambda: (job.id, 2) in world.running())
    second = (await bench.reaches(job, JobState.RUNNING)).placement[0].node
    assert {first, second} == {"n1", "n2"}
    assert f"avoiding {first} for a while: It was evicted" in " ".join(await bench.reasons(job))
    await bench.crash()
    async with opened(tmp_path, world, *NODES, N2, decide=decide) as bench:
        stands(bench, job, WorkerState.LOST, "it was evicted", Fault.PLACE)
        waiting = "Needs 1 GPU. n1 and n2 could not run it and are avoided for a while"
        await bench.until(lambda: bench.controller.book.plan.decisions[job.id].reason.startswith(waiting))


async def test_a_node_is_tried_again_after_a_while(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "AVOIDED", 0.2)
    async with opened(tmp_path, world, decide=decide) as bench:
        job = await bench.reaches(await bench.controller.submit(make_job()), JobState.RUNNING)
        stands(bench, job, WorkerState.LOST, "it was evicted", Fault.PLACE)
        await bench.until(lambda: (job.id, 2) in world.running())
        again = bench.controller.book.jobs[job.id]
        assert again.avoids == ()
        lost, next_one = again.attempts
        assert next_one.created - (lost.ended or 0) >= 0.15  # the loop's clock differs from the wall clock


async def test_a_failing_engine_is_retried(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.controller.retries.FIRST_PAUSE", 0.05)
    async with opened(tmp_path, world) as bench:
        bench.engine.refuse = Unavailable("The API server does not answer.")
        job = await bench.controller.submit(make_job())
        await bench.until(lambda: len(bench.controller.book.jobs[job.id].attempts) >= 3)
        bench.engine.refuse = None
        running = await bench.reaches(job, JobState.RUNNING)
        assert {attempt.fault for attempt in running.attempts[:-1]} == {Fault.ENGINE}
        assert running.avoids == ()


async def test_an_unexpected_engine_error_is_not_the_jobs_fault(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, world) as bench:
        bench.engine.refuse = ZeroDivisionError("a mistake of ours")
        job = await bench.controller.submit(make_job())
        await bench.until(lambda: len(bench.controller.book.jobs[job.id].attempts) == 2)
        bench.engine.refuse = None
        assert bench.controller.book.jobs[job.id].state is not JobState.FAILED


async def test_the_jobs_own_fault_fails_it(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        bench.engine.slow = True
        job = await bench.controller.submit(make_job())
        await bench.until(lambda: (job.id, 1) in world.workers)
        stands(bench, job, WorkerState.EXITED, "there is no image a/b", Fault.JOB)
        failed = await bench.reaches(job, JobState.FAILED)
        assert failed.reason == "There is no image a/b."
