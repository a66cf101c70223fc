"""A long-running job is paused for a short one of its project, in the order `served`: who sees which message."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_ext import card
from scheduler.cli.explain import show
from scheduler.cli.jobs import why
from scheduler.cli.text import Screen, clock
from scheduler.controller import checkpoints
from scheduler.model import JobId, Node, NodeName
from scheduler.schema import Explanation, JobView
from tests.engines import scripted
from tests.live.conftest import Live, Open

TRAIN = [{"name": "train", "environment": "train"}]
PROJECT = {"name": "a", "members": ["*"], "order": "served"}
MINUTES = 20


class Ahead:
    """The offset of all clocks, and their time."""

    by = 0.0

    def now(self) -> float:
        return time.time() + self.by


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    moved = Ahead()
    monkeypatch.setattr(checkpoints, "EVERY", 0.01)
    monkeypatch.setattr(scripted, "time", SimpleNamespace(time=moved.now))
    return moved


async def paused(open_pool: Open, later: Ahead, *, stubborn: bool = False, **short: Any) -> tuple[Live, str, str]:
    """Ann's job has run on the only GPU for nine hours, and has just saved its state, when Ben submits one."""
    live = await open_pool(Node(NodeName("n1"), gpus=1), clock=later.now, node_pools=TRAIN, projects=[PROJECT])
    long = await live.submit(project="a", name="long")
    assert await live.runs(long) == [long]
    later.by = 9 * 3600.0
    live.bench.files.world.saved[long] = later.now()
    jobs = live.bench.controller.book.jobs
    await live.bench.until(lambda: bool(jobs[JobId(long)].checkpointed))
    live.bench.engine.stubborn = stubborn
    new = await live.submit("mate", project="a", name="secret", **short)
    await live.bench.settled()
    return live, long, new


async def test_its_owner_reads_for_whom_and_for_how_long_and_when_it_resumes(open_pool: Open, later: Ahead) -> None:
    live, long, new = await paused(open_pool, later, expected_runtime=60 * MINUTES)
    book = live.bench.controller.book
    await live.bench.until(lambda: JobId(long) in book.forecast.starts)
    job = JobView(**await live.get(f"jobs/{long}", "owner"))
    assert (job.state, job.notice) == ("queued", f"Paused for about {MINUTES} min for a short job of ben.")
    assert job.estimated_start is not None
    again, now = clock(job.estimated_start, later.now()), later.now()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(card, "time", SimpleNamespace(time=later.now, strftime=time.strftime, localtime=time.localtime))
        assert card.state(job) == f"queued. {job.notice[:-1]}; resumes at about {again}."
    assert why(job, now).startswith(f"{job.notice[:-1]}; number 1 in its queue; resumes in about ")
    screen = io.StringIO()
    show(Screen(screen), Explanation(**await live.get(f"jobs/{long}/explain", "owner")), now)
    assert f"notice    {job.notice[:-1]}; resumes at about {again}." in screen.getvalue()
    live.end(new, at=later.now())
    assert await live.runs(long) == [long]
    assert (await live.get(f"jobs/{long}"))["notice"] == ""


async def test_what_is_not_known_is_not_said(open_pool: Open, later: Ahead) -> None:
    """The run time of Ben's job is unknown; and Ann, who has left the project, may not see its owner."""
    live, long, _ = await paused(open_pool, later)
    told = "Paused for a job of {}. The end of the pause is unknown."
    assert (await live.get(f"jobs/{long}", "owner"))["notice"] == told.format("ben")
    await live.apply(node_pools=TRAIN, projects=[{**PROJECT, "members": ["ben"]}])
    for found in (await live.get(f"jobs/{long}", "owner"), await live.get(f"jobs/{long}/explain", "owner")):
        assert found["notice"] == told.format("project a")
        assert "ben" not in str(found)
        assert "secret" not in str(found)
    assert (await live.get(f"jobs/{long}", "mate"))["notice"] == told.format("ben")


async def test_it_is_told_while_it_saves_its_state(open_pool: Open, later: Ahead) -> None:
    live, long, new = await paused(open_pool, later, stubborn=True, expected_runtime=60 * MINUTES)
    job = await live.get(f"jobs/{long}", "owner")
    assert (job["state"], job["notice"]) == ("stopping", "Saving its state to pause for a short job of ben.")
    live.bench.engine.stubborn = False
    live.end(long, -15, at=later.now())
    assert await live.runs(long, new) == [new]


@pytest.mark.parametrize(("surplus", "runs"), [("weight", [2, 2, 0]), ("served", [1, 2, 1])])
async def test_the_surplus_goes_by_weight_or_to_the_least_served(
    open_pool: Open, later: Ahead, surplus: str, runs: list[int]
) -> None:
    """Both projects have two long jobs when two new ones of b wait."""
    projects = [{"name": name, "members": ["*"]} for name in ("a", "b")]
    settings = {"surplus": surplus, "service_levels": [8]}
    node = Node(NodeName("n1"), gpus=4)
    live = await open_pool(node, clock=later.now, node_pools=TRAIN, projects=projects, settings=settings)
    first, second = [await live.submit_all(*[{"project": name}] * 2) for name in ("a", "b")]
    long = [*first, *second]
    assert await live.runs(*long) == long
    later.by = 9 * 3600.0
    live.bench.files.world.saved.update(dict.fromkeys(long, later.now()))
    jobs = live.bench.controller.book.jobs
    await live.bench.until(lambda: all(jobs[JobId(id)].checkpointed for id in long))
    new = await live.submit_all(*[{"project": "b"}] * 2)
    assert [len(await live.runs(*some)) for some in (first, second, new)] == runs
