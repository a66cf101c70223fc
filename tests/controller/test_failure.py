"""The disk fails: only durable changes are published, and work continues once writes succeed again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from scheduler.controller import statewriter
from scheduler.errors import Conflict, Unavailable
from scheduler.model import Job, JobState
from tests.controller.stage import DISK, Bench, make_job, make_session


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statewriter, "PAUSE", 0.05)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The database refuses every write."""
    with sqlite3.connect(folder / "runai.sqlite") as connection:
        for table in ("jobs", "sessions", "events", "attempts"):
            for verb in ("INSERT", "UPDATE"):
                connection.execute(
                    f"CREATE TRIGGER no_{verb}_{table} BEFORE {verb} ON {table} "
                    "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
                )
    yield
    with sqlite3.connect(folder / "runai.sqlite") as connection:
        for table in ("jobs", "sessions", "events", "attempts"):
            for verb in ("INSERT", "UPDATE"):
                connection.execute(f"DROP TRIGGER no_{verb}_{table}")
    connection.close()


async def retried(ask: Callable[[], Awaitable[Job]]) -> Job:
    """As a client does after a request to try again."""
    async with asyncio.timeout(10):
        while True:
            with suppress(Unavailable):
                return await ask()
            await asyncio.sleep(0.01)


async def test_a_change_that_cannot_be_written_is_refused_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    running = await bench.controller.submit(make_job())
    await bench.reaches(running, JobState.RUNNING)
    with read_only(tmp_path):
        with pytest.raises(Unavailable, match="disk full"):
            await bench.controller.submit(make_job())
        with pytest.raises(Unavailable):
            await bench.controller.cancel(running.id)
        with pytest.raises(Unavailable):
            await bench.controller.submit(make_job(idempotency_key="k"))
        assert list(bench.controller.book.jobs) == [running.id]
    job = await retried(lambda: bench.controller.submit(make_job(idempotency_key="k")))
    assert bench.controller.book.jobs[running.id].state is JobState.RUNNING
    await bench.reaches(job, JobState.RUNNING)


async def test_status_of_workers_during_an_outage_is_not_lost(bench: Bench, tmp_path: Path) -> None:
    jobs = [await bench.controller.submit(make_job(workers=2)) for _ in range(2)]
    queued = await bench.controller.submit(make_job(gpus=4))
    for job in jobs:
        await bench.reaches(job, JobState.RUNNING)
    with read_only(tmp_path):
        for rank in (0, 1):
            bench.engine.end(jobs[0].id, 1, rank, 0)
        bench.engine.end(jobs[1].id, 1, 1, 5)
        with pytest.raises(Unavailable):
            await bench.controller.cancel(queued.id)
        assert bench.controller.book.jobs[jobs[0].id].state is JobState.RUNNING
        assert bench.engine.stops == []
    await bench.reaches(jobs[0], JobState.SUCCEEDED)
    failed = await bench.reaches(jobs[1], JobState.FAILED)
    assert failed.reason == "Worker 2 of 2 (rank 1) ended with exit code 5."
    await bench.reaches(queued, JobState.RUNNING)


async def test_a_session_is_leased_once_it_can_be_written(bench: Bench, tmp_path: Path) -> None:
    with read_only(tmp_path):
        asked = asyncio.ensure_future(bench.controller.open_session(make_session()))
        with pytest.raises(Unavailable):
            await bench.controller.submit(make_job())
        assert not asked.done()
    session = await asked
    assert bench.controller.book.sessions == {session.id: session}


async def test_a_request_resumes_writing(bench: Bench) -> None:
    """No write is pending except for a request about an ended job."""
    job = await bench.controller.submit(make_job())
    await bench.reaches(job, JobState.RUNNING)
    bench.engine.end(job.id, 1, 0, 0)
    await bench.reaches(job, JobState.SUCCEEDED)
    await bench.settled()
    DISK.full = True
    with pytest.raises(Conflict, match="succeeded"):
        await retried(lambda: bench.controller.cancel(job.id))
