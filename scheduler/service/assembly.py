"""The running service: store, engine, inventory, controller and API put together, started and stopped in order.

What must hold:
- Leadership is acquired first and released last.
- The address is published only after the book is read: `endpoint.json` is written when the scheduler is ready.
- SIGTERM and SIGINT end it promptly with status 0; workers keep running.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import getpass
import hashlib
import logging
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from traitlets.config import Config

from scheduler.api.app import make_app
from scheduler.api.auth import Authenticator, TokenAuth
from scheduler.api.jobtokens import JobTokens, WithJobs
from scheduler.api.metrics import Metrics
from scheduler.api.server import Server, make_server
from scheduler.controller import Controller
from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.backend import Backend, Setup, backend
from scheduler.engines.leadership import Leadership
from scheduler.errors import Conflict, Invalid, Unavailable
from scheduler.files.blobs import Blobs
from scheduler.files.text import read_text
from scheduler.policy import SnapshotPlanner
from scheduler.pool.changes import changes, warnings
from scheduler.pool.file import parse, pool_of
from scheduler.pool.nodes import as_declared
from scheduler.service.dcgmmapping import DcgmMapping
from scheduler.service.delivery import Delivery, Mail
from scheduler.service.garbage import collect_garbage
from scheduler.service.gpumemory import GpuMemoryWatcher
from scheduler.service.notices import Notices
from scheduler.service.retention import Retention
from scheduler.service.schedules import Schedules
from scheduler.service.serverstops import ServerStopper
from scheduler.service.standby import standing_by
from scheduler.service.threads import start_threads
from scheduler.store import Store
from scheduler.telemetry import Inventory

if TYPE_CHECKING:
    from scheduler.api.context import Context
    from scheduler.operator.operator import Operator

GLANCE = 0.5
"""For how many seconds the lock is tried: a process that only checks it holds it for an instant."""

SWITCH = 0.0003
"""For how many seconds a plan or simulation, which is made in a thread, keeps the interpreter when the event loop needs
it (Python's default: 5 ms). A request waits for it at each read and write of its connection."""

CLOSING = 0.5
"""At the end, how many seconds requests have to notice that their connection is closed."""

PREDECESSOR = 15.0
"""How many seconds a hub's scheduler waits for its predecessor, which a killed hub has left behind, to end."""

ORPHANED = 0.5
"""How often, in seconds, a hub's scheduler checks that its hub still runs."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the service; `service.app.RunaiService` documents each. An empty string means absent."""

    state_dir: Path
    ip: str
    port: int
    base_url: str
    db_url: str
    declared_gpus: int | None
    pool_file: str
    auth: str
    jobs_as: str
    scrape_token: str
    idle_timeout: float
    hub_managed: bool
    log: logging.Logger
    engine: str = "local"
    gpu_isolation: str = "auto"
    standby: bool = False
    operator: bool = False
    dcgm_mapping_dir: str = ""
    mail: Mail | None = None
    webhook_hosts: tuple[str, ...] = ("*",)
    config: Config = field(default_factory=Config)


async def serve(options: Options) -> None:
    """Run until SIGTERM or SIGINT. Raises `Conflict` where another scheduler holds the folder, `Invalid` for
    options."""
    if options.standby and options.db_url.startswith("sqlite"):
        raise Invalid("A standby needs a PostgreSQL database; set db_url.", field="standby")
    if options.operator and options.engine != "kubernetes":
        raise Invalid("The operator needs the Kubernetes engine; set engine to kubernetes.", field="operator")
    sys.setswitchinterval(SWITCH)
    start_threads()
    garbage = asyncio.create_task(collect_garbage())
    stopped = _stop_signals()
    gone = asyncio.create_task(_orphaned(os.getppid())) if options.hub_managed else None
    folder = StateFolder(options.state_dir)
    folder.open()
    ours = backend(
        options.engine,
        Setup(
            folder,
            declared_gpus=options.declared_gpus,
            jobs_as=options.jobs_as,
            gpu_isolation=options.gpu_isolation,
            patience=math.inf if options.standby else PREDECESSOR if options.hub_managed else GLANCE,
            standby=options.standby,
            config=options.config,
        ),
    )
    _allow_descriptors()  # after the backend has read the limits for workers
    lost: asyncio.Task[None] | None = None
    async with contextlib.AsyncExitStack() as standby:
        sockets = await _stand_by(options, folder, ours.leadership, standby) if options.standby else None
        try:
            if not await _leads(ours.leadership, stopped):
                return
            lost = asyncio.create_task(ours.leadership.lost())
            async with _running(options, folder, ours, lost, sockets, standby) as (url, server, controller):
                folder.write_endpoint(url)
                options.log.info("The scheduler answers at %s; its state is in %s", url, folder.path)
                idle = _idle(server, controller, options.idle_timeout) if options.idle_timeout else None
                await _first(stopped.wait(), controller.lost.wait(), asyncio.shield(lost), gone, idle)
                if _is_lost(controller, lost):
                    raise Unavailable(
                        "Another scheduler has taken over the state. This one ends; running jobs continue."
                    )
                options.log.info("Stopping; running jobs continue")
        finally:
            garbage.cancel()
            if lost is not None:
                lost.cancel()
            await ours.leadership.release()


async def _stand_by(
    options: Options, folder: StateFolder, leadership: Leadership, standby: contextlib.AsyncExitStack
) -> list[socket.socket]:
    """Listen, and refuse requests until `standby` is closed."""
    sockets = _listen(options.ip, options.port, folder, reserved=options.hub_managed)
    await standby.enter_async_context(standing_by(sockets, options.base_url, leadership.leader))
    options.log.info("Standing by at %s", _address(sockets[0], options.base_url))
    return sockets


def _allow_descriptors() -> None:
    """Raise the limit of open files to the hard limit; workers get the limit that the process was started with."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS reports no limit, but has one
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _stop_signals() -> asyncio.Event:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


async def _first(*waits: Coroutine[Any, Any, Any] | asyncio.Future[None] | None) -> None:
    """Wait until the first of these is done."""
    tasks = [asyncio.ensure_future(wait) for wait in waits if wait is not None]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _leads(leadership: Leadership, stopped: asyncio.Event) -> bool:
    """Wait until this process leads; false where it is stopped before. Raises `Conflict` where another process keeps
    leading."""
    acquiring = asyncio.create_task(leadership.acquire())
    await _first(asyncio.shield(acquiring), stopped.wait())
    if not acquiring.done():
        acquiring.cancel()
        return False
    await acquiring
    return True


async def _orphaned(hub: int) -> None:
    """Wait until the hub that started this process has been killed: the next hub starts its own scheduler."""
    while os.getppid() == hub:  # noqa: ASYNC110 (the kernel tells nobody)
        await asyncio.sleep(ORPHANED)


async def _idle(server: Server, controller: Controller, patience: float) -> None:
    """Wait until there has been no work, now or by a schedule, and no connection for `patience` seconds."""
    while True:
        book = controller.book
        scheduled = any(schedule.active for schedule in book.schedules.values())
        busy = book.jobs or book.sessions or scheduled or server.connections.none_since is None
        since = time.monotonic() if busy else server.connections.none_since or 0.0
        left = since + patience - time.monotonic()
        if left <= 0:
            return
        await asyncio.sleep(left)


@contextlib.asynccontextmanager
async def _running(
    options: Options,
    folder: StateFolder,
    ours: Backend,
    lost: asyncio.Task[None],
    sockets: list[socket.socket] | None,
    standby: contextlib.AsyncExitStack,
) -> AsyncIterator[tuple[str, Server, Controller]]:
    """The running service: its address, server and controller. It listens on `sockets`, or on new ones, once the
    standby server has released them."""
    async with contextlib.AsyncExitStack() as ends:
        sockets = sockets or _listen(options.ip, options.port, folder, reserved=options.hub_managed)
        store = Store(options.db_url, ours.leadership.election())
        store.open()
        ends.callback(store.close)
        metrics = Metrics()
        url, tokens = _address(sockets[0], options.base_url), JobTokens(folder.secret("job-key"))
        controller = Controller(
            store,
            ours,
            decide=metrics.timed(SnapshotPlanner()),
            credentials=lambda job, attempt: {"RUNAI_URL": ours.url or url, "RUNAI_TOKEN": tokens.of(job, attempt)},
        )
        await controller.start()
        ends.push_async_callback(_let_go, controller, lost)
        await _bring_about(options, folder, controller, ours.inventory)
        gc.freeze()  # most objects of the start are permanent
        blobs = Blobs(folder.path)
        blobs.discard_incoming()
        delivery = Delivery(options.mail, options.webhook_hosts)
        app = make_app(
            controller,
            blobs,
            ours,
            WithJobs(_authenticator(options, folder), tokens, lambda job: controller.book.jobs.get(job)),
            state_dir=folder.path,
            base_url=options.base_url,
            scrape_token=options.scrape_token,
            metrics=metrics,
            courier=delivery,
        )
        api = app.settings["api"]
        retention = asyncio.create_task(Retention(controller, store, api.blobs, api.owners).forever())
        ends.push_async_callback(_cancel, retention)
        ends.push_async_callback(_cancel, asyncio.create_task(ServerStopper(api).forever()))
        ends.push_async_callback(_cancel, asyncio.create_task(api.inventory.forever()))
        ends.push_async_callback(_cancel, asyncio.create_task(Schedules(api).forever()))
        ends.push_async_callback(_cancel, asyncio.create_task(Notices(api, delivery).forever()))
        ends.push_async_callback(_cancel, asyncio.create_task(GpuMemoryWatcher(api, ours.inventory).forever()))
        if options.dcgm_mapping_dir:
            mapping = DcgmMapping(controller, ours.inventory, Path(options.dcgm_mapping_dir))
            ends.push_async_callback(_cancel, asyncio.create_task(mapping.forever()))
        if options.operator:
            operator = _operator(options, api)
            await operator.open()
            ends.push_async_callback(operator.close)
        await standby.aclose()
        server = make_server(app)
        server.add_sockets(sockets)
        ends.push_async_callback(_close, server)
        yield url, server, controller


async def _let_go(controller: Controller, lost: asyncio.Task[None]) -> None:
    if _is_lost(controller, lost):
        await controller.abort()
    else:
        await controller.stop()


def _is_lost(controller: Controller, lost: asyncio.Task[None]) -> bool:
    """Whether another scheduler owns the state now."""
    return controller.lost.is_set() or lost.done()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _close(server: HTTPServer) -> None:
    """Accept no more requests, and close open streams."""
    server.stop()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSING):
            await server.close_all_connections()


def _listen(ip: str, port: int, folder: StateFolder, *, reserved: bool) -> list[socket.socket]:
    """Bind the port. For 0 any port will do, preferably the last one, so that clients that follow a job can reconnect.

    A `reserved` port is also bound by the hub, so that other users cannot take it while no scheduler runs.
    """
    last = folder.last_endpoint()
    if port == 0 and last is not None:
        with contextlib.suppress(OSError, ValueError):
            return bind_sockets(urlsplit(last.url).port or 0, address=ip)
    try:
        return bind_sockets(port, address=ip, reuse_port=reserved)
    except OSError as error:
        raise Invalid(
            f"Nothing can listen on {ip}, port {port} ({error.strerror}); choose others with --ip and --port."
        ) from error


def _address(bound: socket.socket, base_url: str) -> str:
    """The address of the service for clients on this machine."""
    ip, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(ip, f"[{ip}]" if ":" in ip else ip)
    return f"http://{host}:{port}{base_url}"


def _operator(options: Options, api: Context) -> Operator:
    from scheduler.engines.kubernetes.settings import Kubernetes
    from scheduler.operator.operator import Operator  # its client is an extra

    return Operator(Kubernetes(config=options.config), api)


def _authenticator(options: Options, folder: StateFolder) -> Authenticator:
    if options.auth == "hub":
        from scheduler.api.hub_auth import HubAuthenticator  # the hub is an extra

        return HubAuthenticator()
    return TokenAuth(folder.token(), getpass.getuser())


# -- the pool file ------------------------------------------------------------------------------------------


async def _bring_about(options: Options, folder: StateFolder, controller: Controller, inventory: Inventory) -> None:
    """Apply the pool file, unless it was the last one applied: later changes by other means are kept."""
    if not options.pool_file:
        return
    text, _ = read_text(options.pool_file, "pool file")
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        if folder.applied_pool_file() == digest:
            return
    except Invalid as error:
        # A pool file was applied before, and the pool may have changed since then: the current pool was acknowledged.
        options.log.error(
            "%s The pool stays as it is. To apply the pool file again: jupyter runai apply %s",
            error.sentence,
            options.pool_file,
        )
        folder.remember_pool_file(digest)
        return
    before = controller.book.pool
    after = pool_of(parse(text, source=options.pool_file), before, time.time())
    found = changes(before, after)
    try:
        if found:
            await controller.apply(after)
    except Conflict as error:
        # A conflict must not stop the service: continue with the current pool.
        options.log.error("The pool file %s is not applied: %s", options.pool_file, error.sentence)
        return
    options.log.info("The pool file %s is applied; %d changes", options.pool_file, len(found))
    for warning in warnings(after, as_declared(inventory.nodes(after), after), time.time()):
        options.log.warning(warning)
    folder.remember_pool_file(digest)
