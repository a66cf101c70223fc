"""What if, through the running service: the recorded jobs are simulated in a process of their own."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

import pytest

from scheduler.api import whatifprocess
from scheduler.api.whatifprocess import Simulations
from scheduler.errors import Conflict, Invalid, Unavailable
from tests.api.conftest import eventually
from tests.live.conftest import Live, Open

EVERYBODY = {"members": ["*"]}
FOR_EVER = (sys.executable, "-c", "import signal; signal.pause()")


@pytest.fixture
async def live(open_pool: Open) -> Live:
    """With a job that has ended, and one that runs."""
    live = await open_pool(
        node_pools=[{"name": "train", "environment": "train"}],
        projects=[{"name": "a", **EVERYBODY}, {"name": "b", **EVERYBODY}],
    )
    ended = await live.submit(project="a", gpus=4)
    assert await live.runs(ended) == [ended]
    live.end(ended)
    assert (await live.job(ended))["state"] == "succeeded"
    runs = await live.submit(project="b", gpus=4, workers=2)
    assert await live.runs(runs) == [runs]
    return live


async def simulate(live: Live, **change: Any) -> dict[str, Any]:
    answer = await live.service.http["admin"].post("usage/what-if", json=change, timeout=120)
    found: dict[str, Any] = answer.json()
    assert answer.is_success or answer.status_code == 422, answer.text
    return found


async def test_recorded_jobs_are_simulated_with_more_gpus_and_other_guarantees(live: Live) -> None:
    found = await simulate(live, gpus=8, guaranteed={"b": 16})
    assert [found[side]["gpus"] for side in ("recorded", "unchanged", "changed")] == [8, 8, 16]
    assert found["changed"]["total"]["jobs"] == 2
    assert set(found["recorded"]["by_project"]) == {"a", "b"}
    assert (found["unfinished"], found["never_ran"], found["gone"]) == (1, 0, 0)


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"guaranteed": {"c": 1}}, "guaranteed", "There is no project “c” in the pool."),
        ({"since": 0, "until": 1}, "since", "No job that ran in this span can be simulated"),
        ({"since": 2, "until": 1}, "since", "the span ends before it begins"),
        ({"gpus": 20_000}, "gpus", "10000"),
    ],
)
async def test_an_impossible_simulation_is_refused(live: Live, change: Any, field: str, sentence: str) -> None:
    refused = await simulate(live, **change)
    assert refused["field"] == field
    assert sentence in refused["detail"]


async def test_a_simulation_ends_when_its_reader_is_gone(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatifprocess, "PROGRAM", FOR_EVER)
    simulations = live.service.app.settings["api"].simulations
    reader = asyncio.create_task(simulate(live, gpus=1))
    await eventually(lambda: simulations.busy)
    reader.cancel()
    with suppress(asyncio.CancelledError):
        await reader
    await eventually(lambda: not simulations.busy)


async def test_a_simulation_is_killed_when_it_is_cancelled_and_there_is_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whatifprocess, "PROGRAM", FOR_EVER)
    simulations = Simulations()
    first = asyncio.create_task(simulations.run("{}", {}))
    await asyncio.sleep(0)  # it has begun
    with pytest.raises(Conflict, match="Another what-if simulation is running"):
        await simulations.run("{}", {})
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    monkeypatch.setattr(whatifprocess, "SECONDS", 0)
    with pytest.raises(Invalid, match="give a shorter span"):
        await simulations.run("{}", {})


async def test_a_simulation_without_an_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatifprocess, "PROGRAM", (sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(Unavailable, match="for lack of time or memory; give a shorter span"):
        await Simulations().run("{}", {})


async def test_the_demand_is_forecast_from_the_record_against_the_capacity(open_pool: Open) -> None:
    now = 1_772_323_200.0
    live = await open_pool(
        clock=lambda: now,
        node_pools=[{"name": "train", "environment": "train"}],
        projects=[{"name": "a", **EVERYBODY}],
    )
    assert (await live.get("usage/forecast"))["hours"] == []
    runs = await live.submit(project="a", gpus=4)
    await live.submit(project="a", gpus=4, workers=2)
    assert await live.runs(runs) == [runs]
    now += 15 * 86_400
    found = await live.get("usage/forecast")
    assert (found["capacity"], found["weeks"], len(found["history"])) == (8, 2, 168)
    assert found["hours"] == [{"low": 12, "median": 12, "high": 12}] * 168
    assert (found["mean_absolute_error"], found["within_range"]) == (0, 1)
