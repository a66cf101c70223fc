"""Looking ahead: those that wait are told when they are likely to start, and told again only when that has moved."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler.controller import forecaster
from scheduler.controller.forecaster import Forecaster
from scheduler.model import ONE, Job, JobState, Node, Pool, Request, Shape, WorkerPlacement, Workload
from scheduler.policy import Forecast, Snapshot, decide
from scheduler.policy import forecast as foresee
from tests.controller.stage import Bench, World, make_job, opened


async def told_of(bench: Bench, job: Job, after: int) -> float:
    """The first estimated start that is told of a job."""
    async with asyncio.timeout(10):
        async for event in bench.controller.events(after):
            start = (event.data or {}).get("estimated_start")
            if event.subject == job.id and start is not None:
                return float(start)
    raise AssertionError("nothing more is told")


async def test_a_waiting_job_is_told_when_it_is_likely_to_start(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=decide) as bench:
        first = await bench.controller.submit(make_job(gpus=4, expected_runtime=1000.0))
        running = await bench.reaches(first, JobState.RUNNING)
        begun = running.attempts[0].started
        assert begun is not None
        event = bench.controller.book.last_event
        second = await bench.controller.submit(make_job(gpus=4, expected_runtime=500.0))
        third = await bench.controller.submit(make_job(gpus=4))
        assert await told_of(bench, second, event) == begun + 1000
        assert await told_of(bench, third, event) == begun + 1500
        decision = bench.controller.book.decision(third.id)
        assert decision is not None
        assert (decision.position, decision.estimated_start) == (2, begun + 1500)


async def test_where_no_run_time_is_known_nobody_is_told_anything(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=decide) as bench:
        await bench.controller.submit(make_job(gpus=4))
        waiting = await bench.controller.submit(make_job(gpus=4))
        await bench.settled()
        decision = bench.controller.book.decision(waiting.id)
        assert decision is not None
        assert decision.estimated_start is None


def full(end: float, waiting: int = 3) -> Snapshot:
    """One GPU, held until `end` (seconds from the snapshot), and jobs of 10 s that wait for it."""
    request = Request("default", shape=Shape(ONE), expected_runtime=10.0)
    holder = Workload(
        "r", request, -50.0, running=True, started=end - 10.0, placement=(WorkerPlacement("n", (0,)),)
    )
    jobs = [Workload(f"j{n}", request, submitted=float(n)) for n in range(waiting)]
    return Snapshot(0.0, Pool(), (Node("n", gpus=1),), (holder, *jobs))


class Watched:
    """A forecaster at an instant that stands still, and what it has published."""

    def __init__(self) -> None:
        self.published: asyncio.Queue[tuple[Forecast, list[str]]] = asyncio.Queue()
        self.forecaster = Forecaster(foresee, self._publish, lambda: 0.0)

    def _publish(self, forecast: Forecast, moved: list[str]) -> None:
        self.published.put_nowait((forecast, moved))

    async def moved(self, snapshot: Snapshot) -> list[str]:
        self.forecaster.look(snapshot)
        async with asyncio.timeout(10):
            return (await self.published.get())[1]


async def test_who_was_told_is_told_again_when_it_has_moved_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecaster, "PAUSE", 0.0)
    watched = Watched()
    watched.forecaster.open()
    assert await watched.moved(full(1000)) == ["j0", "j1", "j2"]
    assert await watched.moved(full(1000)) == []
    assert await watched.moved(full(1020)) == []
    assert await watched.moved(full(700)) == ["j0", "j1", "j2"]
    assert await watched.moved(full(700, waiting=4)) == ["j3"]
    await watched.forecaster.close()


async def test_many_are_told_bit_by_bit_those_that_start_first_before_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecaster, "PAUSE", 0.0)
    monkeypatch.setattr(forecaster, "TELL", 2)
    watched = Watched()
    watched.forecaster.open()
    assert await watched.moved(full(100, waiting=5)) == ["j0", "j1"]
    async with asyncio.timeout(10):
        assert (await watched.published.get())[1] == ["j2", "j3"]
        assert (await watched.published.get())[1] == ["j4"]
    await watched.forecaster.close()
