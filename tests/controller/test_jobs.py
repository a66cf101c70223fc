"""Jobs through the controller, from submission to end; each step is durable before it is published."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.errors import Conflict, Invalid, NotFound, Unavailable
from scheduler.model import JobId, JobState, UserName
from scheduler.policy import Action, Decision, Plan, Snapshot
from scheduler.store import JobFilter, JobOrder
from tests.controller.stage import NODES, Bench, World, first_come, make_job, opened


async def test_a_job_runs_and_succeeds(bench: Bench) -> None:
    job = await bench.controller.submit(make_job())
    assert job.state is JobState.QUEUED
    running = await bench.reaches(job, JobState.RUNNING)
    assert running.reason == "Runs on n1."
    bench.engine.end(job.id, 1, 0, 0)
    done = await bench.reaches(job, JobState.SUCCEEDED)
    assert done.attempts[0].exit_codes == (0,)
    assert job.id not in bench.controller.book.jobs
    assert await bench.reasons(job) == [
        "Waiting for its turn.",
        "Starts on n1.",
        "Runs on n1.",
        "Succeeded.",
    ]


async def test_it_starts_at_once_on_an_idle_pool(bench: Bench) -> None:
    """Without a tick: the plan comes with the change."""
    took = []
    for _ in range(20):
        began = time.perf_counter()
        job = await bench.controller.submit(make_job())
        await bench.reaches(job, JobState.RUNNING)
        took.append(time.perf_counter() - began)
        bench.engine.end(job.id, 1, 0, 0)
        await bench.reaches(job, JobState.SUCCEEDED)
    assert sorted(took)[len(took) // 2] < 0.25


async def test_the_engine_gets_everything_that_a_worker_needs(bench: Bench, world: World) -> None:
    job = await bench.controller.submit(make_job(gpus=2, workers=2, project="vision"))
    await bench.reaches(job, JobState.RUNNING)
    launch = world.placements[job.id, 1]
    assert [worker.gpus for worker in launch.workers] == [(0, 1), (2, 3)]
    assert launch.nodes == {"n1": NODES[1]}
    assert launch.env == {"RUNAI_JOB_NAME": "train", "RUNAI_PROJECT": "vision"}


async def test_the_next_one_starts_when_gpus_become_free(bench: Bench) -> None:
    first = await bench.controller.submit(make_job(gpus=4))
    second = await bench.controller.submit(make_job(gpus=4))
    await bench.reaches(first, JobState.RUNNING)
    assert bench.controller.book.jobs[second.id].state is JobState.QUEUED
    bench.engine.end(first.id, 1, 0, 0)
    await bench.reaches(second, JobState.RUNNING)


async def test_a_gang_ends_as_a_whole_and_names_the_failed_worker(bench: Bench) -> None:
    job = await bench.controller.submit(make_job(workers=3))
    await bench.reaches(job, JobState.RUNNING)
    bench.engine.end(job.id, 1, 2, 7)
    failed = await bench.reaches(job, JobState.FAILED)
    assert failed.reason == "Worker 3 of 3 (rank 2) ended with exit code 7."
    assert failed.attempts[0].exit_codes == (-15, -15, 7)


async def test_a_failed_job_is_tried_again(bench: Bench) -> None:
    job = await bench.controller.submit(make_job(retries=1))
    for attempt in (1, 2):
        await bench.until(lambda n=attempt: (job.id, n) in bench.engine.world.running())  # type: ignore[misc]
        bench.engine.end(job.id, attempt, 0, 1)
    failed = await bench.reaches(job, JobState.FAILED)
    assert len(failed.attempts) == 2


async def test_a_job_that_runs_too_long_is_stopped(bench: Bench) -> None:
    job = await bench.controller.submit(make_job(max_runtime=0.05))
    failed = await bench.reaches(job, JobState.FAILED)
    assert "maximum run time of <1 s" in failed.reason


async def test_a_launch_that_the_engine_refuses_fails_the_job(bench: Bench) -> None:
    bench.engine.refuse = Invalid("No.")
    failed = await bench.reaches(await bench.controller.submit(make_job()), JobState.FAILED)
    assert "No." in failed.reason
    assert len(failed.attempts) == 1


async def test_a_temporary_launch_failure_is_retried_after_growing_pauses(bench: Bench) -> None:
    bench.engine.refuse = Unavailable("No.")
    job = await bench.controller.submit(make_job())

    def decision() -> Decision | None:
        return bench.controller.book.decision(job.id)

    await bench.until(lambda: (found := decision()) is not None and found.details.get("kind") == "retry")
    assert (waits := decision()) is not None
    assert waits.reason == "Could not be started (No.); retried 10 s after that."
    assert len(bench.controller.book.jobs[job.id].attempts) == 2


# -- requests of an owner ---------------------------------------------------------------------------------------


async def test_cancelling_a_job_that_runs_stops_its_workers(bench: Bench) -> None:
    job = await bench.controller.submit(make_job(grace=3.0))
    await bench.reaches(job, JobState.RUNNING)
    asked = await bench.controller.cancel(job.id)
    assert asked.state is JobState.STOPPING
    await bench.reaches(job, JobState.CANCELLED)
    assert bench.engine.stops == [(job.id, 1, 3.0)]
    assert (await bench.controller.cancel(job.id)).state is JobState.CANCELLED


async def test_a_queued_job_is_cancelled_at_once(bench: Bench, world: World) -> None:
    first = await bench.controller.submit(make_job(gpus=4))
    second = await bench.controller.submit(make_job(gpus=4))
    assert (await bench.controller.cancel(second.id)).state is JobState.CANCELLED
    await bench.reaches(first, JobState.RUNNING)
    bench.engine.end(first.id, 1, 0, 0)
    await bench.reaches(first, JobState.SUCCEEDED)
    assert world.launches == [(first.id, 1)]


async def test_a_paused_job_waits_until_it_is_resumed(bench: Bench) -> None:
    job = await bench.controller.submit(make_job(gpus=4))
    await bench.reaches(job, JobState.RUNNING)
    await bench.controller.pause(job.id)
    await bench.reaches(job, JobState.PAUSED)
    other = await bench.controller.submit(make_job(gpus=4))
    await bench.reaches(other, JobState.RUNNING)
    await bench.controller.resume(job.id)
    await bench.until(lambda: bench.controller.book.jobs[job.id].state is JobState.QUEUED)
    bench.engine.end(other.id, 1, 0, 0)
    running = await bench.reaches(job, JobState.RUNNING)
    assert len(running.attempts) == 2


async def test_invalid_verbs_are_refused(bench: Bench) -> None:
    job = await bench.controller.submit(make_job())
    await bench.reaches(job, JobState.RUNNING)
    bench.engine.end(job.id, 1, 0, 0)
    await bench.reaches(job, JobState.SUCCEEDED)
    with pytest.raises(Conflict, match="succeeded already"):
        await bench.controller.cancel(job.id)
    with pytest.raises(Conflict, match="has succeeded and cannot be paused"):
        await bench.controller.pause(job.id)
    with pytest.raises(NotFound, match="no job nobody"):
        await bench.controller.cancel(JobId("nobody"))


async def test_a_request_during_the_write_of_the_end_is_too_late(bench: Bench) -> None:
    for verb in (bench.controller.cancel, bench.controller.pause, bench.controller.resume):
        job = await bench.controller.submit(make_job())
        await bench.reaches(job, JobState.RUNNING)
        bench.engine.end(job.id, 1, 0, 0)
        with pytest.raises(Conflict, match="succeeded"):
            await verb(job.id)
        done = await bench.controller.job(job.id)
        assert done is not None
        assert done.state is JobState.SUCCEEDED


# -- idempotency ------------------------------------------------------------------------------------------------


async def test_the_same_key_gives_the_same_job(bench: Bench) -> None:
    """Submitted again concurrently, later, and after the job has ended."""
    jobs = await asyncio.gather(*(bench.controller.submit(make_job(idempotency_key="once")) for _ in range(10)))
    assert len({job.id for job in jobs}) == 1
    await bench.reaches(jobs[0], JobState.RUNNING)
    assert (await bench.controller.submit(make_job(idempotency_key="once"))).id == jobs[0].id
    bench.engine.end(jobs[0].id, 1, 0, 0)
    await bench.reaches(jobs[0], JobState.SUCCEEDED)
    again = await bench.controller.submit(make_job(idempotency_key="once"))
    assert (again.id, again.state) == (jobs[0].id, JobState.SUCCEEDED)
    other = await bench.controller.submit(make_job(idempotency_key="once", user="bo"))
    assert other.id != jobs[0].id


async def test_a_disconnected_caller_leaves_no_partial_change(bench: Bench) -> None:
    tasks = [asyncio.ensure_future(bench.controller.submit(make_job())) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await bench.until(lambda: len(bench.engine.world.running()) == 3)


@pytest.mark.parametrize("field", ["name", "user", "idempotency_key", "command", "env"])
@pytest.mark.parametrize("text", ["nul \0", "half a pair \ud800"])
async def test_text_that_cannot_be_stored_is_refused_first(bench: Bench, field: str, text: str) -> None:
    job = make_job(user=text if field == "user" else "ana")
    match field:
        case "command":
            job = replace(job, program=replace(job.program, command=("echo", text)))
        case "env":
            job = replace(job, program=replace(job.program, env={"A": text}))
        case "name":
            job = replace(job, name=text)
        case "idempotency_key":
            job = replace(job, idempotency_key=text)
    other = asyncio.ensure_future(bench.controller.submit(make_job()))
    with pytest.raises(Invalid, match="not text") as refused:
        await bench.controller.submit(job)
    assert refused.value.field == field
    await other


# -- lists and events -------------------------------------------------------------------------------------------


async def test_jobs_are_listed_newest_first_finished_or_not(bench: Bench) -> None:
    jobs = [await bench.controller.submit(make_job(gpus=4, user=user)) for user in ("ana", "bo", "ana")]
    await bench.reaches(jobs[0], JobState.RUNNING)
    await bench.controller.cancel(jobs[1].id)
    listed = await bench.controller.jobs()
    assert [job.id for job in listed] == [job.id for job in reversed(jobs)]
    queued = await bench.controller.jobs(JobFilter(states={JobState.QUEUED}))
    assert [job.id for job in queued] == [jobs[2].id]
    unfinished = JobFilter(user=UserName("ana"), states={JobState.QUEUED, JobState.RUNNING})
    mine = await bench.controller.jobs(unfinished, limit=1)
    assert [job.id for job in mine] == [jobs[2].id]
    rest = await bench.controller.jobs(unfinished, JobOrder(after=(mine[-1].submitted, mine[-1].id)))
    assert [job.id for job in rest] == [jobs[0].id]


async def test_a_changed_position_is_not_an_event(bench: Bench) -> None:
    blocking = await bench.controller.submit(make_job(gpus=4))
    await bench.reaches(blocking, JobState.RUNNING)
    ahead = await bench.controller.submit(make_job(gpus=4))
    job = await bench.controller.submit(make_job(gpus=4))

    def position() -> int | None:
        decision = bench.controller.book.decision(job.id)
        return decision.position if decision else None

    await bench.until(lambda: position() == 2)
    told = bench.controller.book.last_event
    bench.engine.end(blocking.id, 1, 0, 0)
    await bench.until(lambda: position() == 1)
    assert {event.subject for event in await bench.store.events(told)} <= {blocking.id, ahead.id}
    assert bench.controller.book.plan.decisions[job.id].reason.startswith("Waits for")
    await bench.reaches(ahead, JobState.RUNNING)


# -- plans ------------------------------------------------------------------------------------------------------


async def test_a_victim_is_stopped_with_the_reason_and_resumes_automatically(tmp_path: Path, world: World) -> None:
    """The plan reclaims GPUs; the job that needs them starts when they are free; the victim continues after it."""

    def decide(snapshot: Snapshot) -> Plan:
        urgent = [w for w in snapshot.workloads if w.request.project == "speech" and not w.running]
        victims = [w for w in snapshot.workloads if w.running and w.request.project == "default"]
        if urgent and victims:
            stop = Decision(Action.STOP, "Paused for *speech*, which took its guarantee back.")
            start = Decision(Action.START, after=(victims[0].id,))
            decisions = {victims[0].id: stop, urgent[0].id: start}
            return Plan(decisions, {}, changes=decisions)
        running = [w for w in snapshot.workloads if w.running]
        return first_come(replace(snapshot, workloads=(*running, *urgent)) if urgent else snapshot)

    async with opened(tmp_path, world, decide=decide) as bench:
        victim = await bench.controller.submit(make_job(gpus=4))
        await bench.reaches(victim, JobState.RUNNING)
        bench.engine.stubborn = True
        urgent = await bench.controller.submit(make_job("speech", gpus=4))
        stopped = await bench.reaches(victim, JobState.STOPPING)
        assert stopped.reason == "Paused for *speech*, which took its guarantee back."
        assert bench.controller.book.jobs[urgent.id].state is JobState.QUEUED
        bench.engine.end(victim.id, 1, 0, -15)
        await bench.reaches(urgent, JobState.RUNNING)
        assert bench.controller.book.jobs[victim.id].state is JobState.QUEUED
        bench.engine.end(urgent.id, 1, 0, 0)
        again = await bench.reaches(victim, JobState.RUNNING)
        assert len(again.attempts) == 2


async def test_a_plan_that_gives_a_gpu_twice_is_not_carried_out(tmp_path: Path, world: World) -> None:
    def everything_to_everybody(snapshot: Snapshot) -> Plan:
        one = first_come(Snapshot(snapshot.now, snapshot.pool, snapshot.nodes, snapshot.workloads[:1]))
        placement = next(iter(one.decisions.values())).placement if one.decisions else ()
        start = Decision(Action.START, placement=placement)
        keep = Decision(Action.KEEP)
        decisions = {w.id: keep if w.running else start for w in snapshot.workloads}
        return Plan(decisions, {}, changes=decisions)

    async with opened(tmp_path, world, decide=everything_to_everybody) as bench:
        jobs = await asyncio.gather(*(bench.controller.submit(make_job(gpus=4)) for _ in range(3)))
        await bench.until(lambda: len(world.running()) == 1)
        bench.controller.refresh()
        await bench.controller.submit(make_job())
        assert len(world.running()) == 1
        states = sorted(bench.controller.book.jobs[job.id].state for job in jobs)
        assert states.count(JobState.QUEUED) == 2


async def test_a_failing_policy_changes_nothing(tmp_path: Path, world: World, caplog: pytest.LogCaptureFixture) -> None:
    faults = iter([ZeroDivisionError("in the policy")] * 2)

    def shaky(snapshot: Snapshot) -> Plan:
        fault = next(faults, None)
        if fault is not None:
            raise fault
        return first_come(snapshot)

    async with opened(tmp_path, world, decide=shaky) as bench:
        job = await bench.controller.submit(make_job())
        for _ in range(2):
            await bench.controller.submit(make_job())
        bench.controller.refresh()
        async with asyncio.timeout(10):
            while job.id not in {attempt[0] for attempt in world.launches}:
                bench.controller.refresh()
                await asyncio.sleep(0.01)
    assert "Planning failed." in caplog.text
