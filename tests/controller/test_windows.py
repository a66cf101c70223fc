"""Guarantees that change by calendar: advance notices, and a scheduler killed around the change."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from scheduler.engines.files import log_file
from scheduler.model import (
    ONE,
    Job,
    JobState,
    Node,
    NodeName,
    Pool,
    PoolInForce,
    Project,
    ProjectName,
    ReclaimUpTo,
    Settings,
    UserName,
    Window,
    pool_at,
    windows,
)
from scheduler.policy import SnapshotPlanner
from tests.controller.stage import Bench, World, begin, make_job, opened
from tests.engines.act import SAVES
from tests.engines.scripted import ScriptedEngine

BERLIN = "Europe/Berlin"
NINE = datetime(2026, 12, 4, 9, 0, tzinfo=ZoneInfo(BERLIN)).timestamp()
HOUR = 3600.0
NODE = Node(NodeName("n1"), gpus=2)
EVERYBODY = frozenset({UserName("*")})
CLASS = Window(ONE, BERLIN, days=(4,), start=540, end=720)
POOL = Pool(
    projects=(
        Project(ProjectName("lab"), members=EVERYBODY),
        Project(ProjectName("class"), members=EVERYBODY, windows=(CLASS,)),
    ),
    settings=Settings(reclaim=ReclaimUpTo.GUARANTEE),
)


class Clock:
    """A running clock that starts at an instant and can be set."""

    def __init__(self, at: float) -> None:
        self.set(at)

    def __call__(self) -> float:
        return time.time() + self._ahead

    def set(self, at: float) -> None:
        self._ahead = at - time.time()


async def fill(bench: Bench) -> list[Job]:
    """Two jobs of the lab, on all GPUs."""
    jobs = [await bench.controller.submit(make_job("lab")) for _ in range(2)]
    return [await bench.reaches(job, JobState.RUNNING) for job in jobs]


async def test_owners_are_warned_an_hour_before_a_guarantee_rises(tmp_path: Path, world: World) -> None:
    clock = Clock(NINE - 2 * HOUR)
    async with opened(tmp_path, world, NODE, pool=POOL, decide=SnapshotPlanner(), clock=clock) as bench:
        jobs, book = await fill(bench), bench.controller.book

        def told() -> list[str]:
            return sorted(book.jobs[job.id].reason for job in jobs)

        assert told() == ["Runs on n1."] * 2
        clock.set(NINE - HOUR / 2)
        bench.controller.refresh()
        await bench.until(lambda: any("paused" in reason for reason in told()))
        assert told() == [
            "Runs on n1.",
            "Runs on n1. May be paused at 09:00, when the guarantee of project class rises. It would resume at about "
            "12:00.",
        ]
        student = await bench.controller.submit(make_job("class", expected_runtime=3 * HOUR))
        await bench.until(lambda: any("Will" in reason for reason in told()))
        assert told()[1] == "Runs on n1. Will be paused at 09:00 for project class; resumes at about 12:00."
        await bench.controller.cancel(student.id)
        await bench.controller.apply(replace(POOL, projects=(POOL.projects[0], replace(POOL.projects[1], windows=()))))
        await bench.until(lambda: told() == ["Runs on n1."] * 2)


async def test_jobs_are_asked_to_save_their_state_five_minutes_before_once_and_by_a_new_scheduler_after_a_kill(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler is killed when the notice that says so is durable, and before the engine has been told."""
    clock = Clock(NINE - 301)
    bench = await begin(tmp_path, world, NODE, decide=SnapshotPlanner(), clock=clock)
    await bench.controller.apply(POOL)
    jobs = await fill(bench)
    await bench.controller.submit(make_job("class", expected_runtime=3 * HOUR))
    warning = "Runs on n1. Will be paused at 09:00 for project class; resumes at about 12:00."

    def told() -> list[str]:
        return sorted(bench.controller.book.jobs[job.id].reason for job in jobs)

    asks, ask = asyncio.Queue[None](), ScriptedEngine.ask_to_save

    async def heard(engine: ScriptedEngine, job: str, attempt: int, until: float) -> None:
        await ask(engine, job, attempt, until)
        asks.put_nowait(None)

    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr(ScriptedEngine, "ask_to_save", nothing)
    await bench.until(lambda: told()[1] == f"{warning} It was asked to save its state.")
    await bench.crash()
    assert world.asked == {}
    monkeypatch.setattr(ScriptedEngine, "ask_to_save", heard)
    asked = next(job for job in jobs if warning in bench.controller.book.jobs[job.id].reason)
    for _ in range(2):
        async with opened(tmp_path, world, NODE, pool=None, decide=SnapshotPlanner(), clock=clock) as bench:
            async with asyncio.timeout(10):
                await asks.get()
            assert told() == ["Runs on n1.", f"{warning} It was asked to save its state."]
            assert world.asked == {(asked.id, 1): NINE}
            happened = [event.data or {} for event in await bench.store.events(0) if event.subject == asked.id]
    assert [data["state"] for data in happened if data.get("warned")] == ["running"], "its owner is told once"
    log = world.texts[log_file(asked.id, 1, 0)].decode()
    assert log.count(SAVES) == 1


@pytest.mark.parametrize("killed", [-1.0, 0.0, 1.0])
async def test_a_kill_around_the_start_of_a_window_does_not_delay_its_guarantee(
    tmp_path: Path, world: World, killed: float
) -> None:
    """Just before, at and after nine; and at twelve, when no waiting job has a guarantee and no job is stopped."""
    clock = Clock(NINE - HOUR)
    bench = await begin(tmp_path, world, NODE, decide=SnapshotPlanner(), clock=clock)
    await bench.controller.apply(POOL)
    lab = await fill(bench)
    student = await bench.controller.submit(make_job("class"))
    clock.set(NINE + killed)
    if killed >= 0:
        bench.controller.refresh()
    await bench.crash()
    clock.set(NINE + 2)
    bench = await begin(tmp_path, world, NODE, decide=SnapshotPlanner(), clock=clock)
    await bench.reaches(student, JobState.RUNNING)
    await bench.settled()
    assert sorted(bench.controller.book.jobs[job.id].state for job in lab) == ["queued", "running"]
    clock.set(NINE + 3 * HOUR)
    await bench.crash()
    async with opened(tmp_path, world, NODE, pool=None, decide=SnapshotPlanner(), clock=clock) as bench:
        await bench.settled()
        states = [bench.controller.book.jobs[job.id].state for job in (*lab, student)]
        assert sorted(states) == ["queued", "running", "running"]
        assert bench.controller.book.jobs[student.id].state == "running"
    assert len(set(world.launches)) == len(world.launches), "nothing is launched twice"


async def test_what_a_window_changes_is_worked_out_before_it_begins(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many windows it takes a while, so it runs outside the event loop."""
    clock, threads = Clock(NINE - HOUR), list[bool]()

    def noted(declared: Pool, now: float) -> PoolInForce:
        threads.append(threading.current_thread() is threading.main_thread())
        return pool_at(declared, now)

    async with opened(tmp_path, world, NODE, pool=POOL, decide=SnapshotPlanner(), clock=clock) as bench:
        await bench.settled()
        monkeypatch.setattr(windows, "pool_at", noted)
        clock.set(NINE + 1)
        await bench.settled()
        in_force = {project.name: project.guaranteed for project in bench.controller.book.in_force.projects}
        assert in_force == {"lab": 0, "class": ONE}
    assert threads == [False], "and then the change after it"
