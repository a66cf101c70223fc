"""Running jobs that grow, shrink and move: the attempt ends, and the next one begins where the plan says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.controller import checkpoints
from scheduler.model import (
    ONE,
    ArrayId,
    ArrayPlace,
    Ending,
    Job,
    JobState,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Settings,
)
from scheduler.policy import decide
from tests.controller.stage import POOL, Bench, World, begin, make_job, nobody_starts, opened

AT_ONCE = replace(POOL, settings=Settings(resize_interval=0))
"""A job grows without a delay."""


def elastic(project: str = "default", **more: object) -> Job:
    return make_job(project, workers=4, min_workers=1, **more)  # type: ignore[arg-type]


def sizes(job: Job) -> list[int]:
    return [len(attempt.placement) for attempt in job.attempts]


async def grown(bench: Bench, other: int = 3) -> tuple[Job, Job]:
    """An elastic job that runs beside another, and begins to grow when that ends. It has not received its stop yet."""
    first = await bench.controller.submit(make_job(gpus=other))
    await bench.reaches(first, JobState.RUNNING)
    job = await bench.controller.submit(elastic())
    await bench.reaches(job, JobState.RUNNING)
    bench.engine.stubborn = True
    bench.engine.end(first.id, 1, 0, 0)
    return first, await bench.reaches(job, JobState.STOPPING)


def give_in(bench: Bench, job: Job) -> None:
    """The workers of a stopped job have saved their state, and end."""
    for rank in range(len(job.placement)):
        bench.engine.end(job.id, len(job.attempts), rank, 0)


async def again(bench: Bench, job: Job, attempt: int = 2) -> Job:
    await bench.until(lambda: len(bench.controller.book.jobs[job.id].attempts) == attempt)
    return await bench.reaches(job, JobState.RUNNING)


# -- growing ----------------------------------------------------------------------------------------------------


async def test_a_job_grows_on_idle_gpus(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, pool=AT_ONCE, decide=decide) as bench:
        _, job = await grown(bench)
        assert job.reason == "Saving its state; it will resume with 4 workers instead of 1."
        assert job.nomination[0] == job.placement[0]
        assert len(job.nomination) == 4
        give_in(bench, job)
        job = await again(bench, job)
        assert sizes(job) == [1, 4]
        assert job.nomination == ()
        first = job.attempts[0]
        assert (first.ending, first.reason) == (
            Ending.RESIZED,
            "Grew from 1 to 4 workers: GPUs were idle.",
        )
        assert world.placements[job.id, 2].workers == job.placement
        told = await bench.reasons(job)
        assert told[-3:-1] == [first.reason, "Starts on n1."]


async def test_its_nomination_is_kept_while_it_saves_its_state(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, pool=AT_ONCE, decide=decide) as bench:
        _, job = await grown(bench)
        rival = await bench.controller.submit(make_job(priority=10))
        await bench.settled()
        assert bench.controller.book.jobs[rival.id].state is JobState.QUEUED
        give_in(bench, job)
        assert (await again(bench, job)).placement == job.nomination


async def test_growing_uses_no_retry_and_keeps_its_age(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, pool=AT_ONCE, decide=decide) as bench:
        _, job = await grown(bench)
        bench.engine.end(job.id, 1, 0, 1)  # it exits with 1 on SIGTERM: that is no failure
        after = await again(bench, job)
        assert after.attempts[0].ending is Ending.RESIZED
        assert after.workload().submitted == job.workload().submitted
        assert after.workload().preempted is None
        bench.engine.end(job.id, 2, 0, 3)
        bench.engine.stubborn = False
        await bench.engine.stop(job.id, 2, 0)
        assert (await bench.reaches(job, JobState.FAILED)).reason == "Worker 1 of 4 (rank 0) ended with exit code 3."


async def test_a_job_that_ended_before_the_stop_is_not_restarted(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, pool=AT_ONCE, decide=decide) as bench:
        _, job = await grown(bench)
        stopping = job.attempts[0].stopping
        assert stopping is not None
        bench.engine.end(job.id, 1, 0, 0, at=stopping - 0.01)
        done = await bench.reaches(job, JobState.SUCCEEDED)
        assert (sizes(done), done.nomination) == ([1], ())


@pytest.mark.parametrize("saved", [False, True])
async def test_only_a_job_that_has_saved_its_state_is_restarted_to_grow(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", 0.01)
    short = replace(POOL, settings=Settings(resize_interval=0.2))
    async with opened(tmp_path, world, pool=short, decide=decide) as bench:
        first = await bench.controller.submit(make_job(gpus=3))
        await bench.reaches(first, JobState.RUNNING)
        job = await bench.reaches(await bench.controller.submit(elastic()), JobState.RUNNING)
        bench.engine.end(first.id, 1, 0, 0)
        await bench.settled()
        assert bench.controller.book.jobs[job.id].state is JobState.RUNNING
        if saved:
            world.saved[job.id] = 1.0
            grew = await again(bench, job)
            assert sizes(grew) == [1, 4]
            began, ended = grew.attempts[0].started, grew.attempts[0].stopping
            assert began is not None
            assert ended is not None
            assert ended - began >= 0.2
        else:
            assert bench.controller.book.plan.again_at is None


# -- shrinking and moving -----------------------------------------------------------------------------------------


async def test_a_job_shrinks_for_the_guarantee_of_another_project(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=decide) as bench:
        job = await bench.reaches(await bench.controller.submit(elastic()), JobState.RUNNING)
        assert sizes(job) == [4]
        speech = await bench.controller.submit(make_job("speech", gpus=2, user="bo"))
        job = await again(bench, job)
        assert sizes(job) == [4, 2]
        assert job.attempts[0].ending is Ending.RESIZED
        assert job.attempts[0].reason == (f"Released 2 of 4 workers: project speech reclaims GPUs for {speech.id}.")
        speech = await bench.reaches(speech, JobState.RUNNING)
        assert not _gpus(job) & _gpus(speech)


async def test_no_worker_starts_before_all_old_ones_have_ended(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=decide) as bench:
        job = await bench.reaches(await bench.controller.submit(elastic()), JobState.RUNNING)
        bench.engine.stubborn = True
        speech = await bench.controller.submit(make_job("speech", gpus=2, user="bo"))
        job = await bench.reaches(job, JobState.STOPPING)
        for rank in (3, 2, 1):
            bench.engine.end(job.id, 1, rank, 0)
            await bench.settled()
            assert world.running() == {(job.id, 1)}
            assert bench.controller.book.jobs[speech.id].state is JobState.QUEUED
        bench.engine.end(job.id, 1, 0, 0)
        await bench.reaches(speech, JobState.RUNNING)
        assert sizes(await again(bench, job)) == [4, 2]


async def test_a_job_moves_to_make_room(tmp_path: Path, world: World) -> None:
    nodes = (Node(NodeName("n1"), gpus=2, declared=True), Node(NodeName("n2"), gpus=2, declared=True))
    pool = Pool(projects=(Project(ProjectName("default"), guaranteed=4 * ONE),))
    async with opened(tmp_path, world, *nodes, pool=pool, decide=decide) as bench:
        jobs = [await bench.controller.submit(make_job()) for _ in range(4)]
        for job in jobs:
            await bench.reaches(job, JobState.RUNNING)
        for job in (jobs[0], jobs[2]):  # one on each node
            bench.engine.end(job.id, 1, 0, 0)
            await bench.reaches(job, JobState.SUCCEEDED)
        whole = await bench.reaches(await bench.controller.submit(make_job(gpus=2)), JobState.RUNNING)
        both = [bench.controller.book.jobs[job.id] for job in (jobs[1], jobs[3])]
        (moved,) = [job for job in both if len(job.attempts) == 2]
        assert moved.attempts[0].ending is Ending.MOVED
        assert moved.attempts[0].reason == (f"Moved to {moved.placement[0].node}: makes room for {whole.id}.")
        assert len({world.placements[job.id, len(job.attempts)].workers for job in [*both, whole]}) == 3


def _gpus(job: Job) -> set[tuple[str, int]]:
    return {(worker.node, gpu) for worker in job.placement for gpu in worker.gpus}


# -- interruptions ------------------------------------------------------------------------------------------------


async def test_a_kill_between_stop_and_start_loses_neither_job_nor_nomination(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world, decide=decide)
    await bench.controller.apply(AT_ONCE)
    _, job = await grown(bench)
    await bench.crash()
    give_in(bench, job)  # while no scheduler runs
    bench = await begin(tmp_path, world, decide=nobody_starts)
    await bench.reaches(job, JobState.QUEUED)
    await bench.crash()
    async with opened(tmp_path, world, pool=None, decide=decide) as bench:
        rival = await bench.controller.submit(make_job(priority=10))
        running = await again(bench, job)
        assert running.placement == job.nomination
        await bench.settled()
        assert bench.controller.book.jobs[rival.id].state is JobState.QUEUED
    assert world.launches.count((job.id, 2)) == 1


@pytest.mark.parametrize("when", ["stopping", "queued"])
async def test_a_nomination_on_a_removed_node_lapses(tmp_path: Path, world: World, when: str) -> None:
    nodes = (Node(NodeName("n1"), gpus=1, declared=True), Node(NodeName("n2"), gpus=3, declared=True))
    async with opened(tmp_path, world, *nodes, pool=AT_ONCE, decide=decide) as bench:
        _, job = await grown(bench)
        assert {worker.node for worker in job.nomination} == {"n1", "n2"}
        bench.machines.there = nodes[:1]
        if when == "queued":
            give_in(bench, job)
        bench.controller.refresh()
        await bench.until(lambda: not bench.controller.book.jobs[job.id].nomination)
        if when == "stopping":
            give_in(bench, job)
        job = await again(bench, job)
        assert sizes(job) == [1, 1]


async def test_a_limit_that_was_lowered_meanwhile_holds(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, pool=AT_ONCE, decide=decide) as bench:
        _, job = await grown(bench)
        default = replace(AT_ONCE.projects[0], limit=2 * ONE)
        await bench.controller.apply(replace(AT_ONCE, projects=(default, *AT_ONCE.projects[1:])))
        await bench.until(lambda: not bench.controller.book.jobs[job.id].nomination)
        give_in(bench, job)
        assert sizes(await again(bench, job)) == [1, 2]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_job_cancelled_while_moving_does_not_restart(tmp_path: Path, world: World, restarted: bool) -> None:
    bench = await begin(tmp_path, world, decide=decide)
    await bench.controller.apply(AT_ONCE)
    _, job = await grown(bench)
    await bench.controller.cancel(job.id)
    if restarted:
        await bench.crash()
        bench = await begin(tmp_path, world, decide=decide)
    else:
        give_in(bench, job)
    over = await bench.reaches(job, JobState.CANCELLED)
    assert (sizes(over), over.nomination) == ([1], ())
    await bench.crash()


async def test_a_job_paused_while_moving_waits_in_the_queue(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, pool=AT_ONCE, decide=decide) as bench:
        _, job = await grown(bench)
        assert (await bench.controller.pause(job.id)).nomination == ()
        rival = await bench.controller.submit(make_job(gpus=3))
        await bench.reaches(rival, JobState.RUNNING)
        give_in(bench, job)
        await bench.reaches(job, JobState.PAUSED)
        await bench.controller.resume(job.id)
        assert sizes(await again(bench, job)) == [1, 1]


async def test_a_member_of_an_array_keeps_its_turn(tmp_path: Path, world: World) -> None:
    def members(indices: Iterable[int]) -> list[Job]:
        return [
            make_job(workers=4, min_workers=1, array=ArrayPlace(ArrayId("a"), index, 2, max_parallel=1))
            for index in indices
        ]

    async with opened(tmp_path, world, pool=AT_ONCE, decide=decide) as bench:
        blocker = await bench.reaches(await bench.controller.submit(make_job(gpus=3)), JobState.RUNNING)
        low, high = await bench.controller.submit_array(members([0, 1]))
        await bench.reaches(low, JobState.RUNNING)
        await bench.controller.pause(low.id)
        high = await bench.reaches(high, JobState.RUNNING)
        await bench.controller.resume(low.id)
        bench.engine.end(blocker.id, 1, 0, 0)
        assert sizes(await again(bench, high)) == [1, 4]
        assert bench.controller.book.jobs[low.id].state is JobState.QUEUED
