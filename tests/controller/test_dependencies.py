"""Jobs that wait for other jobs, or for their turn in an array; also across `kill -9`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.controller import retries
from scheduler.controller.pauses import Pauses
from scheduler.errors import Conflict, Invalid, Unavailable
from scheduler.model import After, ArrayId, ArrayPlace, Attempt, Ending, Job, JobId, JobState
from scheduler.store import JobFilter
from tests.controller.stage import Bench, World, begin, make_job, opened


async def run(bench: Bench, job: Job) -> Job:
    return await bench.reaches(await bench.controller.submit(job), JobState.RUNNING)


def array(size: int, max_parallel: int | None) -> list[Job]:
    first = make_job()
    return [
        replace(
            first,
            id=JobId(f"a-{first.id}-{index}"),
            request=replace(first.request, array=ArrayPlace(ArrayId(f"a-{first.id}"), index, size, max_parallel)),
        )
        for index in range(size)
    ]


def running(bench: Bench) -> list[int]:
    return sorted(
        job.request.array.index
        for job in bench.controller.book.jobs.values()
        if job.state.holds_gpus and job.request.array
    )


async def test_a_job_starts_when_the_one_before_it_has_succeeded(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        first = await run(bench, make_job())
        second = await bench.controller.submit(make_job(after=(After(first.id),)))
        await bench.settled()
        decision = bench.controller.book.plan.decisions[second.id]
        assert decision.reason == f"Waits for job {first.id} to succeed."
        assert (decision.position, decision.details) == (None, {"kind": "after", "jobs": [first.id]})
        assert world.launches == [(first.id, 1)]
        bench.engine.end(first.id, 1, 0, 0)
        await bench.reaches(second, JobState.RUNNING)


@pytest.mark.parametrize("how", ["fails", "is cancelled", "is cancelled before it starts"])
async def test_a_job_whose_dependency_failed_ends_with_the_reason(tmp_path: Path, world: World, how: str) -> None:
    async with opened(tmp_path, world) as bench:
        large = how.endswith("starts") and await run(bench, make_job(gpus=4))
        first = await bench.controller.submit(make_job())
        if not large:
            await bench.reaches(first, JobState.RUNNING)
        second = await bench.controller.submit(make_job(after=(After(first.id),)))
        paused = await bench.controller.pause((await bench.controller.submit(replace(second, id=JobId("paused")))).id)
        third = await bench.controller.submit(make_job(after=(After(second.id),)))
        anyway = await bench.controller.submit(make_job(after=(After(third.id, afterany=True),)))
        if how == "fails":
            bench.engine.end(first.id, 1, 0, 3)
        else:
            await bench.controller.cancel(first.id)
        ended = await bench.reaches(second, JobState.CANCELLED)
        word = "failed" if how == "fails" else "been cancelled"
        assert ended.reason == f"Job {first.name} has {word}, and this job requires it to succeed."
        assert (await bench.reaches(paused, JobState.CANCELLED)).reason == ended.reason
        ended = await bench.reaches(third, JobState.CANCELLED)
        assert ended.reason.startswith(f"Job {second.name} has been cancelled")
        if large:
            bench.engine.end(large.id, 1, 0, 0)
        await bench.reaches(anyway, JobState.RUNNING)
        assert {job for job, _ in world.launches}.isdisjoint({second.id, third.id, paused.id})


async def test_a_chain_of_a_thousand_ends_at_once(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        first = last = await run(bench, make_job())
        for _ in range(1000):
            last = await bench.controller.submit(make_job(after=(After(last.id),)))
        await bench.controller.cancel(first.id)
        await bench.reaches(last, JobState.CANCELLED)
        assert bench.controller.book.jobs == {}


async def test_a_dependency_that_has_ended_is_checked_at_submission(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        good, bad = await run(bench, make_job()), await run(bench, make_job())
        bench.engine.end(good.id, 1, 0, 0)
        bench.engine.end(bad.id, 1, 0, 1)
        await bench.reaches(bad, JobState.FAILED)
        await bench.reaches(good, JobState.SUCCEEDED)
        await run(bench, make_job(after=(After(good.id), After(bad.id, afterany=True))))
        with pytest.raises(Conflict, match=f"Job {bad.id} has failed already") as refused:
            await bench.controller.submit(make_job(after=(After(bad.id),)))
        assert refused.value.field == "after"
        with pytest.raises(Invalid, match="no job nothing"):
            await bench.controller.submit(make_job(after=(After(JobId("nothing")),)))


@pytest.mark.parametrize("code", [0, 1])
async def test_a_kill_between_the_two_changes_nothing(tmp_path: Path, world: World, code: int) -> None:
    bench = await begin(tmp_path, world)
    first = await run(bench, make_job())
    second = await bench.controller.submit(make_job(after=(After(first.id),)))
    await bench.crash()
    bench.engine.end(first.id, 1, 0, code)
    bench = await begin(tmp_path, world)
    await bench.reaches(first, JobState.FAILED if code else JobState.SUCCEEDED)
    await bench.crash()
    async with opened(tmp_path, world) as bench:
        await bench.reaches(second, JobState.CANCELLED if code else JobState.RUNNING)
    assert (second.id, 1) in world.launches or code


async def test_an_array_runs_within_max_parallel_in_index_order(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        jobs = await bench.controller.submit_array(array(5, 2)[::-1])
        jobs = sorted(jobs, key=lambda job: job.id)
        await bench.reaches(jobs[1], JobState.RUNNING)
        await bench.settled()
        assert running(bench) == [0, 1]
        reason = bench.controller.book.plan.decisions[jobs[2].id].reason
        assert reason == "At most 2 jobs of this array may run at the same time."
        bench.engine.end(jobs[0].id, 1, 0, 1)
        await bench.reaches(jobs[2], JobState.RUNNING)
        assert running(bench) == [1, 2]
        await bench.controller.pause(jobs[1].id)
        await bench.reaches(jobs[3], JobState.RUNNING)
        assert running(bench) == [2, 3]
        await bench.controller.resume(jobs[1].id)
        await bench.settled()
        assert running(bench) == [2, 3]
        bench.engine.end(jobs[3].id, 1, 0, 0)
        await bench.reaches(jobs[1], JobState.RUNNING)
        assert running(bench) == [1, 2]


async def test_max_parallel_holds_after_a_kill(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world)
    jobs = await bench.controller.submit_array(array(4, 1))
    await bench.reaches(jobs[0], JobState.RUNNING)
    await bench.crash()
    async with opened(tmp_path, world) as bench:
        for job in jobs:
            await bench.reaches(job, JobState.RUNNING)
            await bench.settled()
            assert len(running(bench)) == 1
            bench.engine.end(job.id, 1, 0, 0)
    assert world.launches == [(job.id, 1) for job in jobs]


async def test_the_same_key_gives_the_same_array(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        first, *others = array(3, None)
        jobs = await bench.controller.submit_array([replace(first, idempotency_key="k"), *others])
        again = await bench.controller.submit_array([replace(make_job(), idempotency_key="k")])
        assert [job.id for job in again] == [job.id for job in jobs]
        assert len(await bench.controller.jobs(JobFilter(array=ArrayId(jobs[0].id[:-2])))) == 3


async def test_a_job_may_depend_on_an_array(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        jobs = await bench.controller.submit_array(array(2, None))
        name = jobs[0].id[:-2]
        then = await bench.controller.submit(make_job(after=(After(JobId(name)),)))
        for job in jobs:
            await bench.reaches(job, JobState.RUNNING)
            assert then.id not in {launched for launched, _ in world.launches}
            bench.engine.end(job.id, 1, 0, 0)
        await bench.reaches(then, JobState.RUNNING)
        await run(bench, make_job(after=(After(JobId(name)),)))


async def test_a_repeated_failure_pauses_the_job_also_after_a_restart(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 300.0)
    async with opened(tmp_path, world) as bench:
        job = await bench.controller.submit(make_job(retries=2))
        for attempt in (1, 2):
            await bench.until(lambda n=attempt: (job.id, n) in world.running())  # type: ignore[misc]
            bench.engine.end(job.id, attempt, 0, 1)
        await bench.until(lambda: len(bench.controller.book.jobs[job.id].attempts) == 2)
        await bench.reaches(job, JobState.QUEUED)
        await bench.settled()
        decision = bench.controller.book.plan.decisions[job.id]
        assert decision.reason == "Has failed again; retried 5 min after that."
    async with opened(tmp_path, world) as bench:
        await bench.settled()
        assert bench.controller.book.jobs[job.id].state is JobState.QUEUED
        assert world.launches == [(job.id, 1), (job.id, 2)]


async def test_the_job_is_retried_when_its_pause_ends(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.2)
    async with opened(tmp_path, world) as bench:
        job = await bench.controller.submit(make_job(retries=2))
        for attempt in (1, 2, 3):
            await bench.until(lambda n=attempt: (job.id, n) in world.running())  # type: ignore[misc]
            bench.engine.end(job.id, attempt, 0, 1)
        attempts = (await bench.reaches(job, JobState.FAILED)).attempts
        assert attempts[2].created >= (attempts[1].ended or 0.0) + 0.2


async def test_a_pause_ends_when_the_engine_says_that_the_start_may_succeed(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 300.0)
    async with opened(tmp_path, world) as bench:
        bench.engine.refuse = Unavailable("The quota is used up.")
        job, paused = [await bench.controller.submit(make_job()) for _ in range(2)]
        for each in (job, paused):
            await bench.until(lambda id=each.id: len(bench.controller.book.jobs[id].attempts) == 2)  # type: ignore[misc]
            await bench.reaches(each, JobState.QUEUED)
        await bench.controller.pause(paused.id)
        await bench.settled()
        assert "Could not be started" in bench.controller.book.plan.decisions[job.id].reason
        bench.engine.refuse = None
        assert [bench.engine.may_start(*attempt) for attempt in ((job.id, 1), (paused.id, 2), (JobId("x"), 1))] == [
            False
        ] * 3
        await bench.settled()
        assert world.launches == []
        assert bench.engine.may_start(job.id, 2)
        await bench.reaches(job, JobState.RUNNING)
        assert world.launches == [(job.id, 3)]


@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
def test_setting_the_clock_does_not_change_a_pause(jump: float) -> None:
    failed = [Attempt(number, (), created=100.0, ended=100.0, ending=Ending.FAILED) for number in (1, 2)]
    job = replace(make_job(retries=20), attempts=tuple(failed))
    pauses = Pauses()
    assert pauses.look([job], 101.0, 1.0) == {job.id: 110.0}
    assert pauses.look([job], 104.0 + jump, 4.0) == {job.id: 110.0 + jump}
    assert pauses.look([job], 110.0 + jump, 10.0) == {}
    assert Pauses().look([job], 101.0 - 86400.0, 1.0) == {job.id: 111.0 - 86400.0}  # restarted: at most the whole pause


async def test_setting_the_clock_back_does_not_delay_a_retry(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.2)
    ahead = 3600.0
    async with opened(tmp_path, world, clock=lambda: time.time() + ahead) as bench:
        job = await bench.controller.submit(make_job(retries=2))
        for attempt in (1, 2):
            await bench.until(lambda n=attempt: (job.id, n) in world.running())  # type: ignore[misc]
            bench.engine.end(job.id, attempt, 0, 1, at=time.time() + ahead)
        await bench.until(lambda: len(bench.controller.book.jobs[job.id].attempts) == 2)
        ahead = 0.0
        await bench.until(lambda: (job.id, 3) in world.running())


def test_pauses_double_up_to_the_longest() -> None:
    job = make_job(retries=20)
    pauses = []
    for number in range(1, 11):
        failed = Attempt(number, (), created=0.0, ended=0.0, ending=Ending.FAILED)
        job = replace(job, attempts=(*job.attempts, failed))
        pauses.append(retries.again_at(job))
    assert pauses == [None, 10, 20, 40, 80, 160, 320, 600, 600, 600]
