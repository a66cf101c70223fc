"""A whole scheduler in this process: real store, real engine, real controller, real HTTP on a free port."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from scheduler.api.access import Caller, Scope
from scheduler.api.app import ROUTES, make_app
from scheduler.api.auth import Authenticator, token_of
from scheduler.api.base import ApiHandler
from scheduler.api.directory import Directory
from scheduler.api.jobtokens import JobTokens, WithJobs
from scheduler.api.metrics import Metrics
from scheduler.api.server import make_server
from scheduler.controller import Controller
from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.backend import Backend, Setup
from scheduler.engines.local.backend import local
from scheduler.errors import Conflict
from scheduler.files.blobs import MAX_BYTES, Blobs
from scheduler.model import JobId, JobState, Pool, Project, ProjectName, UserName
from scheduler.policy import SnapshotPlanner
from scheduler.store import Store

SCRAPE = "only-for-metrics"

OF_JOBS = JobTokens("the key of the tests")

CALLERS = {
    "powerless": Caller.of(UserName("ann"), frozenset()),
    "reader": Caller.of(UserName("rex"), frozenset({Scope.READ})),
    "owner": Caller.of(UserName("ann"), frozenset({Scope.SUBMIT})),
    "mate": Caller.of(UserName("ben"), frozenset({Scope.SUBMIT})),
    "stranger": Caller.of(UserName("zoe"), frozenset({Scope.SUBMIT})),
    "admin": Caller.of(UserName("root"), frozenset({Scope.ADMIN})),
}
"""The callers known to the scheduler under test, by token. The owner, the mate and the reader share a project."""

POOL = Pool(
    projects=(
        Project(
            ProjectName("vision"),
            guaranteed=2000,
            members=frozenset({UserName("ann"), UserName("ben"), UserName("rex")}),
        ),
        Project(ProjectName("speech"), guaranteed=2000, members=frozenset({UserName("zoe")})),
        Project(ProjectName("spare")),
    )
)


class KnownTokens(Authenticator):
    """Knows the callers of a table by their tokens; a test may remove one."""

    directory: Directory | None = None

    def __init__(self, callers: dict[str, Caller]) -> None:
        self.callers = dict(callers)

    async def identify(self, handler: RequestHandler) -> Caller | None:
        return self.callers.get(token_of(handler.request) or "")

    async def user(self, name: UserName) -> Caller | None:
        """As the directory says, if there is one; otherwise all callers are users."""
        if self.directory is not None or name not in {caller.name for caller in self.callers.values()}:
            return await super().user(name)
        return Caller.of(name, frozenset({Scope.SUBMIT}))


@dataclass
class Service:
    """The scheduler under test and its engine's `inventory`; `http` has a client for each caller, and `nobody`."""

    url: str
    state_dir: Path
    app: Application
    controller: Controller
    store: Store
    tokens: KnownTokens
    http: dict[str, httpx.AsyncClient]
    inventory: Any

    async def submit(self, caller: str = "owner", **job: Any) -> dict[str, Any]:
        answer = await self.http[caller].post("jobs", json={"command": ["sleep", "60"], **job})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def until(self, job_id: str, *states: JobState) -> None:
        """Wait until a job is in one of these states."""

        def there() -> bool:
            job = self.controller.book.jobs.get(JobId(job_id))
            return job is not None and job.state in states

        async def arrive() -> None:
            events = self.controller.events(0)
            async for event in events:
                if event.subject == job_id:
                    found = await self.controller.job(JobId(job_id))
                    if found is not None and found.state in states:
                        return

        if not there():
            async with asyncio.timeout(30):
                await arrive()


Start = Callable[..., Awaitable[Service]]


async def eventually(condition: Callable[[], Any], seconds: float = 20) -> None:
    """Poll for a condition that has no event (a deleted file, for example)."""
    async with asyncio.timeout(seconds):
        for pause in itertools.repeat(0.01):
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return
            await asyncio.sleep(pause)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., Awaitable[None]]:
    return eventually


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a scheduler on this test's folder, with the arguments of `running`."""
    async with AsyncExitStack() as stack:

        async def started(**options: Any) -> Service:
            return await stack.enter_async_context(running(tmp_path, **options))

        yield started


@pytest.fixture
async def service(start: Start) -> Service:
    return await start()


@asynccontextmanager
async def running(
    state_dir: Path,
    *,
    authenticator: Authenticator | None = None,
    base_url: str = "/",
    pool: Pool = POOL,
    max_blob: int = MAX_BYTES,
    send_buffer: int | None = None,
    connections: int | None = None,
    limits: Mapping[str, float] = MappingProxyType({}),
    backend: Backend | None = None,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Service]:
    state_dir.chmod(0o700)
    backend = backend or local(Setup(StateFolder(state_dir), declared_gpus=8))
    store = Store(f"sqlite:///{state_dir}/runai.sqlite")
    store.open()
    metrics = Metrics()
    controller = Controller(
        store,
        backend,
        decide=metrics.timed(SnapshotPlanner()),
        clock=clock,
        credentials=lambda job, attempt: {"RUNAI_TOKEN": OF_JOBS.of(job, attempt)},
    )
    await controller.start()
    if controller.book.pool.projects != pool.projects:
        await controller.apply(pool)
    tokens = KnownTokens(CALLERS)
    app = make_app(
        controller,
        Blobs(state_dir),
        backend,
        WithJobs(authenticator or tokens, OF_JOBS, lambda job: controller.book.jobs.get(job)),
        state_dir=state_dir,
        base_url=base_url,
        scrape_token=SCRAPE,
        max_blob=max_blob,
        metrics=metrics,
        connections=connections,
        clock=clock,
    )
    undocumented = _watch_statuses(app)
    server = make_server(app, **limits)
    sockets = bind_sockets(0, "127.0.0.1")
    if send_buffer is not None:
        sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    server.add_sockets(sockets)
    url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}{base_url}"
    http = {
        name: httpx.AsyncClient(base_url=f"{url}api/v1/", headers={"Authorization": f"token {name}"}, timeout=30)
        for name in (*CALLERS, "wrong")
    }
    http["nobody"] = httpx.AsyncClient(base_url=f"{url}api/v1/", timeout=30)
    try:
        yield Service(url, state_dir, app, controller, store, tokens, http, backend.inventory)
    finally:
        for client in http.values():
            await client.aclose()
        server.stop()
        await server.close_all_connections()
        for job in list(controller.book.jobs.values()):
            with suppress(Conflict):  # it has ended meanwhile
                await controller.cancel(job.id)
        await settled(controller)
        await controller.stop()
        store.close()
    assert not undocumented, "the API's description does not know these"


def _watch_statuses(app: Application) -> set[tuple[str, str, int]]:
    """Collects responses that the API's description does not list."""
    paths = json.loads(app.settings["openapi"])["paths"]
    documented = {
        (handler.__name__, method, int(status))
        for path, handler in ROUTES
        for method, operation in paths[path].items()
        for status in operation["responses"]
    }
    undocumented: set[tuple[str, str, int]] = set()

    def note(handler: RequestHandler) -> None:
        answer = (type(handler).__name__, (handler.request.method or "").lower(), handler.get_status())
        if isinstance(handler, ApiHandler) and handler.endpoint is not None and answer not in documented:
            undocumented.add(answer)

    app.settings["log_function"] = note
    return undocumented


async def settled(controller: Controller) -> None:
    """Wait until every worker is gone, so that a test leaves no process behind."""
    try:
        async with asyncio.timeout(60):
            async for _ in controller.events(0):
                if not controller.book.jobs:
                    return
    except TimeoutError:
        raise AssertionError(f"still there: {list(controller.book.jobs.values())}") from None
