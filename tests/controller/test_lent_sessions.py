"""An idle session lends its GPUs and has them back, whatever is killed in between: they never have two users, and each
GPU-second is charged to whoever held it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.controller.book import Holdings
from scheduler.model import JobState, Session, Settings
from scheduler.policy import decide
from scheduler.store import WantedUsage
from tests.controller.stage import POOL, Bench, World, begin, make_job, make_session

LENDING = replace(POOL, settings=Settings(lending=True))
EVER = WantedUsage(0, 4_000_000_000)


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


async def restarted(bench: Bench, world: World, clock: Clock) -> Bench:
    """The scheduler after `kill -9`; its state on disk must be what it had told."""
    before = dict(bench.controller.book.sessions)
    await bench.crash()
    bench = await begin(bench.folder, world, decide=decide, clock=clock)
    assert dict(bench.controller.book.sessions) == before
    return bench


def all_held_once(bench: Bench) -> bool:
    book = bench.controller.book
    holdings = Holdings(book.nodes, ())
    return all(holdings.take(w.placement) for w in book.standing if any(worker.gpus for worker in w.placement))


@pytest.mark.parametrize("killed", [(), ("lent", "recalled", "returned", "taken")])
async def test_a_kill_at_any_step_leaves_the_book_and_the_record_true(
    tmp_path: Path, world: World, killed: tuple[str, ...]
) -> None:
    clock = Clock()
    bench = await begin(tmp_path, world, decide=decide, clock=clock)

    async def step(seconds: float, name: str) -> Bench:
        await bench.settled()
        assert all_held_once(bench)
        clock.now += seconds
        return await restarted(bench, world, clock) if name in killed else bench

    def session() -> Session:
        (found,) = [each for each in bench.controller.book.sessions.values() if each.user == "ana"]
        return found

    await bench.controller.apply(LENDING)
    await bench.controller.open_session(make_session("ben"))
    leased = await bench.controller.open_session(make_session("ana"))
    await bench.controller.submit(make_job(gpus=4))  # all that is there to train
    job = await bench.controller.submit(make_job(gpus=1))
    bench = await step(100, "leased")

    await bench.controller.lend_session(leased.id, "Idle.")
    await bench.reaches(job, JobState.RUNNING)
    bench = await step(1000, "lent")
    assert (session().claim, bench.controller.book.jobs[job.id].placement) == (leased.placement, leased.placement)

    bench.engine.stubborn = True
    await bench.controller.recall_session(leased.id)
    await bench.reaches(job, JobState.STOPPING)
    assert (session().recalled, session().placement[0].gpus) == (clock.now, ())
    if "recalled" in killed:
        bench = await restarted(bench, world, clock)
    world.end(job.id, 1, 0, -15)
    await bench.until(lambda: not session().claim)
    bench = await step(50, "returned")
    assert (session().placement, session().recalled) == (leased.placement, None)

    bench.engine.stubborn = False
    await bench.controller.take_back_session(leased.id, "Idle.")
    bench = await step(500, "taken")
    assert (session().taken, session().counted) == (True, 0)
    another = await bench.controller.open_session(make_session("cy"))
    assert another.placement == leased.placement
    await bench.controller.close_session(leased.id)

    bench.controller.accountant.charge()
    await bench.settled()
    used = await bench.controller.used(replace(EVER, by=("environment", "user")))
    held = {each.names: each.used.held for each in used}["build", "ana"]
    assert held == pytest.approx(100 + 50)
    await bench.controller.stop()
    bench.store.close()
