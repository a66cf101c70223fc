"""Orders that an agent waits for."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.engines.agents.archive import agent_archive
from scheduler.engines.agents.live import State
from scheduler.engines.base import WorkerState
from scheduler.model import Fault, JobId
from scheduler.worker.agent import requests, run
from tests.engines.agents.workers import FIRST, agents_of
from tests.engines.backends import RemoteBackendSetup, Scheduler
from tests.engines.workplace import eventually


async def test_a_node_without_space_for_the_files_is_at_fault(here: Scheduler, tokens: tuple[str, ...]) -> None:
    agents = agents_of(here)
    live = agents.worker(tokens[0])
    assert live is not None
    await agents.hear(live, State("a" * 32, WorkerState.LOST, 1.0, reason="its files could not be written."))
    assert ((await here.end("j")).state, (await here.end("j")).fault) == (WorkerState.LOST, Fault.PLACE)


async def test_an_agent_learns_of_a_stop_while_it_waits(here: Scheduler, tokens: tuple[str, ...]) -> None:
    agents = agents_of(here)
    live = agents.worker(tokens[0])
    assert live is not None
    waiting = asyncio.create_task(agents.orders(live, 0, 30))
    await agents.stop(JobId("j"), 1, 600)
    number, left, _ = await waiting
    assert number != 0
    assert left is not None
    assert 0 < left <= 600


async def test_an_agent_learns_that_its_worker_is_lost_while_it_waits(here: Scheduler, tokens: tuple[str, ...]) -> None:
    agents = agents_of(here)
    live = agents.worker(tokens[0])
    assert live is not None
    waiting = asyncio.create_task(agents.orders(live, 0, 600))
    await asyncio.sleep(0)
    await agents.lose(FIRST, "its node is gone.")
    await waiting
    assert agents.worker(tokens[0]) is None


class ImpatientProxy:
    """A scheduler behind a proxy that ends requests after `limit` seconds of the agent's clock; answers `polls`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit: float, polls: int) -> None:
        self.waits: list[int] = []
        self._now, self._limit, self._polls = 0.0, limit, polls
        monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: self._now))

    def report(self, **_: object) -> None:
        pass

    def ask(self, _method: str, _path: str, *, after: int, wait: int, ready: int) -> bytes:
        if len(self.waits) == self._polls:
            raise requests.Refused("Enough.")
        self.waits.append(wait)
        self._now += min(wait, self._limit)
        if wait > self._limit:
            raise OSError
        return json.dumps({"number": after, "stop": None, "begin": True}).encode()

    def ask_until_answered(self, method: str, path: str, *, after: int, wait: int, ready: int) -> bytes:
        return self.ask(method, path, after=after, wait=wait, ready=ready)


@pytest.mark.parametrize(
    ("limit", "waits"),
    [
        (math.inf, [100, 100, 100]),
        (60, [100, 20, 50, 50]),
        (30, [100, 20, 50, 20, 25, 25]),
        (21, [100, 20, 50, 20, 25, 20, 20, 20]),
    ],
)
def test_an_agent_waits_as_long_as_proxies_allow(
    monkeypatch: pytest.MonkeyPatch, limit: float, waits: list[int]
) -> None:
    there: Any = ImpatientProxy(monkeypatch, limit, len(waits))
    unused: Any = None  # no order to stop comes
    run.obey(there, worker=unused, agent="a", started=0.0)
    assert there.waits == waits


async def test_a_gang_begins_when_all_of_it_are_ready(here: Scheduler, tokens: tuple[str, ...]) -> None:
    """Also where the scheduler restarts between the first and the last."""
    agents = agents_of(here)
    first, second = (live for token in tokens if (live := agents.worker(token)) is not None)
    assert await agents.orders(first, 0, 0, ready=True) == (0, None, False)
    waiting = asyncio.create_task(agents.orders(first, 0, 30))
    assert await agents.orders(second, 0, 0, ready=True) == (1, None, True)
    assert await waiting == (1, None, True)
    await agents.hear(first, State("a" * 32, WorkerState.RUNNING, started=1.0))
    await here.restart(("j", 1, 2))
    late = agents_of(here).worker(tokens[1])
    assert late is not None
    assert await agents_of(here).orders(late, 0, 0) == (0, None, False)
    assert await agents_of(here).orders(late, 0, 0, ready=True) == (1, None, True)


async def test_an_agent_that_waits_for_its_gang_ends_when_its_place_does(
    here: Scheduler, setup: RemoteBackendSetup, tokens: tuple[str, ...], tmp_path: Path
) -> None:
    live = agents_of(here).worker(tokens[0])
    assert live is not None
    (home := tmp_path / "home").mkdir()
    env = {"RUNAI_AGENT_URL": f"http://127.0.0.1:{setup.port}/", "RUNAI_AGENT_TOKEN": tokens[0]}
    (archive := tmp_path / "agent.pyz").write_bytes(agent_archive())
    command = (sys.executable, str(archive))
    running = await asyncio.create_subprocess_exec(*command, cwd=home, env={**os.environ, **env})
    await eventually(lambda: FIRST not in live.awaited)
    running.terminate()
    assert await running.wait() == 0
    end = await here.end("j")
    assert (end.state, end.reason) == (WorkerState.LOST, "it was stopped, but not by the scheduler.")
