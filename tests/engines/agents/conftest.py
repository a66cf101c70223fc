"""A scheduler whose workers run by agents in simulated containers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from scheduler.engines.rendezvous import Rendezvous
from tests.engines.agents.workers import Ask, agents_of
from tests.engines.backends import RemoteBackendSetup, Scheduler
from tests.engines.workplace import launch


@pytest.fixture
def setup(tmp_path: Path) -> RemoteBackendSetup:
    (tmp_path / "state").mkdir(mode=0o700)
    return RemoteBackendSetup(tmp_path / "state")


@pytest.fixture
async def here(setup: RemoteBackendSetup) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(setup)
    await scheduler.open()
    await scheduler.backend.engine.recover([])
    await scheduler.serve()
    try:
        yield scheduler
    finally:
        await scheduler.close()
        setup.containers.clear()


@pytest.fixture
async def ask(setup: RemoteBackendSetup) -> AsyncIterator[Ask]:
    """Creates a client with the token of a worker."""
    url = f"http://127.0.0.1:{setup.port}/api/v1/agent/"
    async with AsyncExitStack() as clients:

        def client(token: str) -> httpx.AsyncClient:
            made = httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
            clients.push_async_callback(made.aclose)
            return made

        yield client


@pytest.fixture
async def tokens(here: Scheduler) -> tuple[str, ...]:
    """The tokens of two workers whose agents are not started."""
    order = launch("j", ("true",), workers=2)
    rendezvous = Rendezvous(order.program.framework, order.workers, ("here",) * 2, (), "")
    return await agents_of(here).admit(order, rendezvous)
