"""Ended jobs are deleted, on request or by age: never what others need, and completely despite crashes."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.errors import Conflict, NotFound, Unavailable
from scheduler.model import After, ArrayId, ArrayPlace, Job, JobId, JobState
from scheduler.store import JOB_DELETED, ChangeSet, Store
from tests.controller.scheduler_process import command, scheduling
from tests.controller.stage import POOL, Bench, World, begin, make_job, opened

DAY = 86_400.0


async def ran(bench: Bench, job: Job | None = None) -> Job:
    job = await bench.controller.submit(job or make_job())
    await bench.reaches(job, JobState.RUNNING)
    bench.engine.end(job.id, 1, 0, 0)
    return await bench.reaches(job, JobState.SUCCEEDED)


async def aged(bench: Bench, *jobs: Job, days: float) -> None:
    """Make the jobs' ends this many days older."""
    then = time.time() - days * DAY
    await bench.controller.settle()
    older = tuple(replace(job, ended=then) for job in jobs)
    await bench.store.write(ChangeSet(jobs=older))
    with database(bench) as connection:
        for job in jobs:
            connection.execute("UPDATE jobs SET submitted = ? WHERE id = ?", (then, job.id))


@contextmanager
def database(bench: Bench) -> Iterator[sqlite3.Connection]:
    """The store's database, changed from outside."""
    with closing(sqlite3.connect(bench.folder / "runai.sqlite")) as connection, connection:
        yield connection


async def test_a_finished_job_is_deleted_with_an_event(bench: Bench) -> None:
    job = await ran(bench)
    events = bench.controller.events(bench.controller.book.last_event)
    await bench.controller.delete(job.id)
    assert await bench.controller.job(job.id) is None
    assert job.id not in await bench.files.kept()
    async with asyncio.timeout(10):
        told = await anext(events)
    assert (told.kind, told.subject, told.user, told.project) == (JOB_DELETED, job.id, "ana", "default")
    assert [each.kind for each in await bench.store.events(0) if each.subject == job.id] == [JOB_DELETED]
    with pytest.raises(NotFound):
        await bench.controller.delete(job.id)


async def test_a_job_that_has_not_ended_is_not_deleted(bench: Bench) -> None:
    running, waiting = [await bench.controller.submit(make_job(gpus=4)) for _ in range(2)]
    await bench.reaches(running, JobState.RUNNING)
    paused = await bench.controller.submit(make_job(gpus=4))
    await bench.controller.pause(paused.id)
    for job in (running, waiting, paused):
        with pytest.raises(Conflict, match="cancel it first"):
            await bench.controller.delete(job.id)
        assert await bench.controller.job(job.id) is not None


async def test_a_job_is_not_deleted_while_others_depend_on_it(bench: Bench) -> None:
    first = await ran(bench)
    follower = await bench.controller.submit(make_job(after=(After(first.id),)))
    with pytest.raises(Conflict, match="needed by unfinished jobs"):
        await bench.controller.delete(first.id)
    await aged(bench, first, days=100)
    await bench.controller.tidy()
    assert await bench.controller.job(first.id) is not None
    await bench.reaches(follower, JobState.RUNNING)
    bench.engine.end(follower.id, 1, 0, 0)
    await bench.reaches(follower, JobState.SUCCEEDED)
    await bench.controller.tidy()
    assert await bench.controller.job(first.id) is None


async def test_no_job_of_an_array_is_deleted_before_all_have_ended(bench: Bench) -> None:
    jobs = [replace(make_job(), id=JobId(f"a-1-{n}")) for n in range(2)]
    places = [ArrayPlace(ArrayId("a-1"), n, 2, max_parallel=1) for n in range(2)]
    array = [replace(job, request=replace(job.request, array=place)) for job, place in zip(jobs, places, strict=True)]
    first, second = await bench.controller.submit_array(array)
    await bench.reaches(first, JobState.RUNNING)
    bench.engine.end(first.id, 1, 0, 0)
    await bench.reaches(first, JobState.SUCCEEDED)
    with pytest.raises(Conflict):
        await bench.controller.delete(first.id)
    await bench.controller.cancel(second.id)
    await bench.reaches(second, JobState.CANCELLED)
    await bench.controller.delete(first.id)
    await bench.controller.delete(second.id)


@pytest.mark.parametrize(("keep", "left"), [(90.0, {"new"}), (1.0, set()), (None, {"old", "new"})])
async def test_old_jobs_are_deleted_after_keep_days(bench: Bench, keep: float | None, left: set[str]) -> None:
    jobs = {name: await ran(bench) for name in ("old", "new")}
    await aged(bench, jobs["old"], days=91)
    await aged(bench, jobs["new"], days=89)
    await bench.controller.apply(replace(POOL, keep_days=keep))
    await bench.controller.tidy()
    assert {name for name, job in jobs.items() if await bench.controller.job(job.id)} == left


async def test_old_events_are_deleted_except_the_newest(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        await ran(bench)
        last = bench.controller.book.last_event
    later = time.time() + 91 * DAY
    async with opened(tmp_path, world, pool=None, clock=lambda: later) as bench:
        await bench.controller.tidy()
        assert [each.kind for each in await bench.store.events(0)] == [JOB_DELETED]
        assert bench.controller.book.last_event == last + 1
    async with opened(tmp_path, world, pool=None) as bench:
        await bench.controller.submit(make_job())
        assert (await bench.store.events(last + 1))[0].id == last + 2


async def test_after_a_crash_leftover_files_are_deleted_at_the_next_start(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world)
    job, stranger = await ran(bench), await ran(bench)

    async def killed(job: str) -> None:
        raise Unavailable("Killed.")

    bench.files.forget = killed  # type: ignore[method-assign]
    await bench.controller.delete(job.id)
    with database(bench) as connection:  # of another database: not deleted in this one
        connection.execute("DELETE FROM jobs WHERE id = ?", (stranger.id,))
    await bench.crash()
    async with opened(tmp_path, world, pool=None) as bench:
        assert await bench.files.kept() == {job.id, stranger.id}
        await bench.controller.tidy()
        assert await bench.files.kept() == {stranger.id}


async def test_a_failed_deletion_is_retried(bench: Bench) -> None:
    job = await ran(bench)
    await bench.controller.tidy()
    forget: Callable[[str], object] = bench.files.forget

    async def refuse(job: str) -> None:
        raise OSError("The disk is away.")

    bench.files.forget = refuse  # type: ignore[method-assign]
    await bench.controller.delete(job.id)
    assert job.id in await bench.files.kept()
    bench.files.forget = forget  # type: ignore[method-assign,assignment]
    await bench.controller.tidy()
    assert job.id not in await bench.files.kept()


async def test_kill_9_leaves_each_job_complete_or_deleted(tmp_path: Path) -> None:
    remaining = set(await over_with_files(tmp_path, 300))
    for round in range(4):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.controller.deleting_process",
            str(tmp_path),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"begins\n"
            await asyncio.sleep(round * 0.03)
            process.kill()
            await process.wait()
        store = Store(f"sqlite:///{tmp_path}/runai.sqlite")
        store.open()
        there = {str(job.id) for job in await store.jobs(limit=1000)}
        store.close()
        assert there <= remaining
        for job in there:
            assert (tmp_path / "jobs" / job / "output" / "model").read_text() == job
        remaining = there
    async with scheduling(tmp_path) as controller:
        pool = controller.book.pool
        await controller.apply(replace(pool, keep_days=None))
        await controller.tidy()
        assert {path.name for path in (tmp_path / "jobs").iterdir()} == remaining
        await controller.apply(pool)
        await controller.tidy()
        assert list((tmp_path / "jobs").iterdir()) == []


async def over_with_files(state_dir: Path, count: int) -> list[str]:
    """Ended jobs, each with its files."""
    store = Store(f"sqlite:///{state_dir}/runai.sqlite")
    store.open()
    made = [replace(command("true"), state=JobState.SUCCEEDED, ended=1.0, submitted=0.0) for _ in range(count)]
    for job in made:
        output = state_dir / "jobs" / job.id / "output"
        output.mkdir(parents=True)
        (output / "model").write_text(job.id)
    await store.write(ChangeSet(submitted=tuple(made)))
    store.close()
    return [job.id for job in made]
