"""Held GPUs are charged exactly once, despite crashes and clocks that are set back."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller import accounting
from scheduler.controller.accounting import HOUR
from scheduler.controller.book import Book
from scheduler.model import (
    Attempt,
    Ending,
    Environment,
    GpuKey,
    GpuType,
    Job,
    JobState,
    Node,
    NodeName,
    PoolUse,
    WorkerPlacement,
)
from scheduler.store import ChangeSet, UsageRecord, WantedUsage
from scheduler.telemetry import GpuUsage
from tests.controller.stage import Bench, World, begin, make_job, make_session

EVER = WantedUsage(0, 4_000_000_000)
NODES = (Node(NodeName("n1"), 4, GpuType("A100")), Node(NodeName("n2"), 4, GpuType("H100")))
MIXED = (WorkerPlacement(NodeName("n1"), (0, 1)), WorkerPlacement(NodeName("n2"), (0,), 500))

instants = st.integers(0, 100_000)


def put(book: Book, change: ChangeSet) -> tuple[UsageRecord, ...]:
    """Decide a change, and charge."""
    found = accounting.records(accounting.after(book, change), book.nodes)
    book.put(change)
    return found


def starting(job: Job, at: float) -> Job:
    return replace(job, state=JobState.STARTING).with_attempt(Attempt(len(job.attempts) + 1, MIXED, at, at))


def ended(job: Job, at: float, ending: Ending = Ending.PREEMPTED) -> Job:
    attempt = replace(job.attempts[-1], ending=ending, stopping=at, ended=at)
    return replace(job, state=JobState.QUEUED).with_attempt(attempt)


@given(st.lists(st.tuples(st.sampled_from(["start", "end", "charge", "crash"]), instants), max_size=30))
def test_each_attempt_is_charged_from_its_start_to_its_end_whatever_the_clock_says(
    steps: list[tuple[str, int]],
) -> None:
    book, job, charged, expected = Book(nodes=NODES), make_job(), 0.0, 0.0
    found: list[UsageRecord] = []
    for step, at in (*steps, ("end", 0)):
        held = job.state.holds_gpus
        if step == "start" and not held:
            job = starting(job, at)
            found += put(book, ChangeSet(jobs=(job,)))
        elif step == "end" and held:
            end = max(job.attempts[-1].created, at)
            job = ended(job, end)
            found += put(book, ChangeSet(jobs=(job,)))
            expected += 2.5 * (end - job.attempts[-1].created)
        elif step == "charge":
            until = max(at, book.accounted_until)
            found += accounting.records(accounting.going_on(book, until), book.nodes)
            book.put(ChangeSet(accounted_until=until))
        elif step == "crash":
            until, again = book.accounted_until, Book(nodes=NODES)
            again.put(ChangeSet(jobs=(job,), accounted_until=until))
            book = again
    charged = math.fsum(record.used.held for record in found)
    assert math.isclose(charged, expected, abs_tol=1e-6)
    assert all(record.start % HOUR == 0 and abs(record.used.held) <= HOUR * 2 for record in found)


def test_use_is_divided_by_gpu_type_and_by_hour() -> None:
    book = Book(nodes=NODES)
    job = starting(make_job(), 3000.0)
    put(book, ChangeSet(jobs=(job,)))
    found = put(book, ChangeSet(jobs=(ended(job, 4000.0),)))
    held = {(record.start, record.consumer.gpu_type): record.used.held for record in found}
    assert held == {(0, "A100"): 1200, (3600, "A100"): 800, (0, "H100"): 300, (3600, "H100"): 200}
    (end,) = [record for record in found if record.used.reclaims]
    assert (end.start, end.consumer.environment, end.used.lost) == (3600, Environment.TRAIN, 2500)


def test_work_that_was_saved_is_not_lost() -> None:
    job = replace(starting(make_job(), 0.0), checkpointed=900.0)
    for ending, lost in ((Ending.LOST, 250), (Ending.SUCCEEDED, 0), (Ending.STOPPED, 0)):
        book = Book(nodes=NODES)
        put(book, ChangeSet(jobs=(job,)))
        found = put(book, ChangeSet(jobs=(ended(job, 1000.0, ending),)))
        assert sum(record.used.lost for record in found) == lost


async def sums(bench: Bench, *by: str) -> dict[tuple[str, ...], tuple[float, int]]:
    found = await bench.controller.used(replace(EVER, by=by))
    return {each.names: (each.used.held, each.used.starts) for each in found}


async def test_the_record_of_use_survives_a_crash(tmp_path: Path, world: World) -> None:
    now = [10_000.0]
    bench = await begin(tmp_path, world, clock=lambda: now[0])
    job = await bench.controller.submit(replace(make_job(gpus=4), submitted=9_000.0, queued=9_000.0))
    await bench.reaches(job, JobState.RUNNING)
    session = await bench.controller.open_session(replace(make_session("ben", gpus=0.5), requested=10_000.0))
    now[0] = 20_000.0
    await bench.crash()
    bench = await begin(tmp_path, world, clock=lambda: now[0])
    now[0] = 30_000.0
    await bench.controller.close_session(session.id)
    bench.controller.accountant.charge()
    await bench.settled()
    assert await sums(bench, "environment", "project", "user", "gpu_type") == {
        ("build", "", "ben", ""): (0.5 * 20_000, 1),
        ("train", "default", "ana", "A100"): (4 * 20_000, 1),
    }
    (total,) = await bench.controller.used(EVER)
    assert (total.used.wait, total.used.longest_wait) == (1000, 1000)
    start, *_ = await bench.controller.pool_history(0, 40_000, 60)  # of a job, not of a session
    assert (start.start, start.used) == (9_960, PoolUse(starts=1, wait=1000, longest_wait=1000))
    await bench.crash()


async def test_idle_gpus_are_counted_where_they_are_measured(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world)
    job = await bench.controller.submit(make_job(gpus=2))
    await bench.reaches(job, JobState.RUNNING)
    n1 = NodeName("n1")
    usage = {GpuKey((n1, 0)): GpuUsage(0.0, 1, 80), GpuKey((n1, 1)): GpuUsage(0.9, 1, 80)}
    bench.controller.accountant.look(usage, 15.0)
    bench.controller.accountant.look({GpuKey((n1, 0)): GpuUsage(None, 1, 80)}, 15.0)
    bench.controller.accountant.charge()
    await bench.settled()
    (total,) = await bench.controller.used(EVER)
    assert (total.used.measured, total.used.idle) == (30, 15)
    await bench.crash()


async def test_what_is_held_and_waits_is_in_the_history_of_the_pool_after_a_crash(tmp_path: Path, world: World) -> None:
    now = [6_000.0]
    bench = await begin(tmp_path, world, clock=lambda: now[0])
    job = await bench.controller.submit(make_job(gpus=2))
    await bench.reaches(job, JobState.RUNNING)
    for _ in range(2):
        await bench.controller.submit(make_job(gpus=4))
    await bench.controller.open_session(make_session("ben", gpus=0.5))
    now[0] = 6_059.0
    usage = {GpuKey((NodeName("n1"), gpu)): GpuUsage(gpu / 2, 1, 80) for gpu in range(2)}
    bench.controller.accountant.look(usage, 15.0)
    now[0] = 6_060.0
    bench.controller.accountant.look({}, 15.0)
    bench.controller.accountant.charge()
    await bench.settled()
    await bench.crash()
    bench = await begin(tmp_path, world, clock=lambda: now[0])
    first, second = await bench.controller.pool_history(6_000, 7_000, 60)
    assert (first.used.observed, first.used.held, first.used.queued) == (30, 37.5, 30)  # one sample is of the start
    assert (second.used.observed, second.used.held, second.used.measured, second.used.queued) == (15, 37.5, 0, 30)
    assert (first.used.measured, first.used.idle) == (30, 15)
    await bench.crash()
