"""The event stream with many listeners: the delay of a change, and the response times of other requests.

The scheduler is a separate process behind a hub that only checks tokens. Each listener is a user's server: a connection
with its own token, in another process. Projects have 20 members, who see each other's jobs. Meanwhile jobs are
submitted and cancelled, and other users send requests. No job starts: one job holds every GPU.

    python events.py [LISTENERS [QUEUED]]
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scheduler.client import Client
from scheduler.discovery.statefolder import StateFolder
from scheduler.model import Job, JobId, JobKind, JobState, Pool, Program, Project, ProjectName, Request, Shape, UserName
from scheduler.schema import JobSubmit
from scheduler.store import ChangeSet, Store

LISTENERS, QUEUED = 10_000, 10_000
MEMBERS = 20
CHANGES = 50
"""Per second: as many submissions as cancellations."""
ASKED = 20
"""Other requests per second."""
CONNECTIONS = 50
SECONDS = 30
WARM_UP = 10
GPUS = 8
ADMIN = "the-services-own"
SERVICE = ("-m", "scheduler.service.app")

_TOLD = re.compile(rb'"at":([0-9.]+),"kind":"job\.(?:submitted|state)"')


# -- the scheduler ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """The environment of a scheduler, across restarts; `wait` is the command of a job that runs until the end."""

    folder: StateFolder
    hub_port: int
    wait: list[str]

    @contextmanager
    def serving(self, program: Sequence[str] = SERVICE) -> Iterator[tuple[str, int]]:
        with serving(self.folder, self.hub_port, program) as running:
            yield running


@contextmanager
def service(place: Path) -> Iterator[Place]:
    """A place for a scheduler behind a hub that only checks tokens. Its waiting job ends with the context."""
    folder = StateFolder(place / "state")
    folder.open()
    flag = place / "go-on"
    flag.touch()
    with socket.create_server(("127.0.0.1", 0)) as free:
        hub_port = free.getsockname()[1]
    knows = subprocess.Popen([sys.executable, __file__, "--hub", str(hub_port)])
    try:
        yield Place(folder, hub_port, ["sh", "-c", f"while [ -e {flag} ]; do sleep 0.2; done"])
    finally:
        knows.kill()
        knows.wait()
        flag.unlink()
        while not all((worker / "exit.json").exists() for worker in folder.path.glob("jobs/*/attempts/1/0")):
            time.sleep(0.05)  # a worker writes it last


@contextmanager
def scheduler(place: Path, users: int, queued: int) -> Iterator[tuple[str, int]]:
    """A scheduler whose pool is held by one job, with a queue: its address and process."""
    with service(place) as here:
        write(here.folder, pool_of(users))
        with here.serving() as (url, _), Client(url, ADMIN) as client:
            holder = client.submit(JobSubmit(command=here.wait, gpus=client.pool().train.gpus, project="holder"))
            while client.job(holder.id).state is not JobState.RUNNING:
                time.sleep(0.02)
        write(here.folder, ChangeSet(submitted=tuple(jobs(users, queued))))
        with here.serving() as running:
            yield running


@contextmanager
def serving(folder: StateFolder, hub_port: int, program: Sequence[str] = SERVICE) -> Iterator[tuple[str, int]]:
    """The scheduler's process, which `program` starts; the job outlives it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RUNAI_")}
    options = (f"--state-dir={folder.path}", f"--declared-gpus={GPUS}", "--auth=hub", "--log-level=40")
    process = subprocess.Popen(
        [sys.executable, *program, *options],
        env={
            **environment,
            "JUPYTERHUB_API_TOKEN": ADMIN,
            "JUPYTERHUB_API_URL": f"http://127.0.0.1:{hub_port}/hub/api",
            "JUPYTERHUB_BASE_URL": "/",
            "JUPYTERHUB_CLIENT_ID": "service-runai",
            "JUPYTERHUB_OAUTH_CALLBACK_URL": "/oauth_callback",
            "JUPYTERHUB_OAUTH_SCOPES": "[]",
        },
    )
    try:
        while (endpoint := folder.endpoint()) is None or endpoint.pid != process.pid:
            if process.poll() is not None:
                raise SystemExit("The scheduler did not start.")
            time.sleep(0.02)
        yield endpoint.url, process.pid
    finally:
        process.terminate()
        process.wait()


def pool_of(users: int) -> ChangeSet:
    projects = (
        Project(ProjectName(project_of(n)), members=frozenset(UserName(f"user-{m}") for m in range(n, n + MEMBERS)))
        for n in range(0, users, MEMBERS)
    )
    return ChangeSet(pool=Pool(projects=(Project(ProjectName("holder"), guaranteed=GPUS * 1000), *projects)))


def jobs(users: int, queued: int) -> Iterator[Job]:
    now = time.time()
    for n in range(queued):
        request = Request(ProjectName(project_of(n % users)), UserName(f"user-{n % users}"), shape=Shape(1000))
        program = Program(JobKind.COMMAND, ("python", "train.py"))
        yield Job(JobId(f"j-{n:012}"), f"train-{n}", request, program, submitted=now - queued + n)


def write(folder: StateFolder, changes: ChangeSet) -> None:
    """Write them into the state of a stopped scheduler."""
    store = Store(f"sqlite:///{folder.path}/runai.sqlite")
    store.open()

    async def written() -> None:
        await store.write(changes)

    asyncio.run(written())
    store.close()


def project_of(user: int) -> str:
    return f"project-{user // MEMBERS}"


def cost(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Peak memory of a process, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


# -- a hub that checks tokens: `user-7` is that user's -------------------------------------------------------


async def hub(port: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"(?i)authorization: (?:token|bearer) (\S+)", head)
                name = found[1].decode() if found else ""
                scopes = ["custom:runai:read", "custom:runai:submit"]
                model = {"name": name, "kind": "user", "admin": False, "groups": [], "scopes": scopes}
                body = json.dumps(model).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                    + body
                )

    async with await asyncio.start_server(answer, "127.0.0.1", port) as server:
        await server.serve_forever()


# -- listeners, in a separate process ------------------------------------------------------------------------


class Listener(asyncio.Protocol):
    """One connection. The class holds the events of all of them."""

    late: list[float] = []  # noqa: RUF012 (shared on purpose)
    received = 0
    open = 0
    lost = 0

    def __init__(self, request: bytes, opened: asyncio.Future[None]) -> None:
        self._request, self._opened = request, opened
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time()
        if not self._opened.done():
            if not data.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"A listener was refused: {data.decode()}")
            self._opened.set_result(None)
            Listener.open += 1
        Listener.received += len(data)
        whole, end, self._rest = (self._rest + data).rpartition(b"\n")
        for found in _TOLD.finditer(whole + end):
            Listener.late.append(now - float(found[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        Listener.lost += 1


async def listen(url: str, count: int, query: str) -> None:
    """Open `count` connections; then answer each line of standard input with the events since the last."""
    address = urlsplit(url)
    loop = asyncio.get_running_loop()
    turns = asyncio.Semaphore(100)

    async def one(number: int) -> None:
        request = (
            f"GET {address.path}api/v1/events{query} HTTP/1.1\r\nHost: {address.netloc}\r\n"
            f"Authorization: token user-{number}\r\nAccept: text/event-stream\r\n\r\n"
        )
        opened: asyncio.Future[None] = loop.create_future()
        async with turns:
            await loop.create_connection(
                lambda: Listener(request.encode(), opened), address.hostname or "", address.port or 0
            )
            await opened

    await asyncio.gather(*(one(number) for number in range(count)))
    print(json.dumps({"open": Listener.open}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        late, Listener.late = Listener.late, []
        received, Listener.received = Listener.received, 0
        print(json.dumps({"late": late, "received": received, "lost": Listener.lost}), flush=True)


class Listeners:
    """The listening process."""

    def __init__(self, url: str, count: int, query: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--listen", url, str(count), query],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.read()

    def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return dict(json.loads(self._process.stdout.readline()))

    def heard(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.read()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


# -- changes and requests ------------------------------------------------------------------------------------


class Connection:
    """A minimal client, with one request at a time."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, token: str, body: bytes = b"") -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._address.hostname, self._address.port)
        reader, writer = self._streams
        path = path[1:] if path.startswith("/") else f"api/v1/{path}"
        writer.write(
            f"{method} {self._address.path}{path} HTTP/1.1\r\nHost: {self._address.netloc}\r\n"
            f"Authorization: token {token}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        answer = await reader.readexactly(int(length[1])) if length else b""
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"{method} {path} was refused: {answer.decode()}")
        return answer


class Load:
    """Send changes and requests at a steady rate, whether or not earlier ones have been answered.

    The time waiting for a connection counts.
    """

    def __init__(self, url: str, users: int, queued: int) -> None:
        self._users = users
        self._free: asyncio.Queue[Connection] = asyncio.Queue()
        for _ in range(CONNECTIONS):
            self._free.put_nowait(Connection(url))
        self._queue = deque((f"j-{n:012}", n % users) for n in range(queued))
        self._random = random.Random(7)
        self._body = JobSubmit(command=["python", "train.py"], gpus=1).model_dump_json(exclude_unset=True).encode()
        self.took: dict[str, list[float]] = {"change": [], "ask": []}

    async def run(self, seconds: float) -> None:
        began, tasks = time.monotonic(), set[asyncio.Task[None]]()
        for n in range(int(seconds * (CHANGES + ASKED))):
            await asyncio.sleep(began + n / (CHANGES + ASKED) - time.monotonic())
            work = self._ask() if n % (CHANGES + ASKED) < ASKED else self._change(n)
            tasks.add(task := asyncio.create_task(work))
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def _change(self, n: int) -> None:
        user = self._random.randrange(self._users)
        if n % 2:
            job = json.loads(await self._send("change", "POST", "jobs", user, self._body))
            self._queue.append((job["id"], user))
        else:
            id, owner = self._queue.popleft()
            await self._send("change", "POST", f"jobs/{id}/cancel", owner)

    async def _ask(self) -> None:
        path = self._random.choice(("me", "jobs?mine=true", "pool"))
        await self._send("ask", "GET", path, self._random.randrange(self._users))

    async def _send(self, kind: str, method: str, path: str, user: int, body: bytes = b"") -> bytes:
        began = time.monotonic()
        connection = await self._free.get()
        answer = await connection.ask(method, path, f"user-{user}", body)
        self._free.put_nowait(connection)
        self.took[kind].append(time.monotonic() - began)
        return answer


# -- figures --------------------------------------------------------------------------------------------------


def percentile(values: list[float], part: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * part // 100)] if values else float("nan")


def told(figure: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": f"events: {figure}", "value": round(value, 2), "unit": unit}), flush=True)


def many(listeners: int, queued: int, query: str) -> None:
    """Measure changes with many listeners."""
    with (
        tempfile.TemporaryDirectory() as place,
        scheduler(Path(place), max(listeners, MEMBERS), queued) as (url, pid),
    ):
        began = time.monotonic()
        listening = Listeners(url, listeners, query)
        print(f"{listeners} listeners in {time.monotonic() - began:.1f} s", file=sys.stderr)
        try:
            load = Load(url, max(listeners, MEMBERS), queued)

            async def play() -> tuple[float, float]:
                await load.run(WARM_UP)
                load.took = {"change": [], "ask": []}
                listening.heard()
                before, at = cost(pid), time.monotonic()
                await load.run(SECONDS)
                return cost(pid) - before, time.monotonic() - at

            used, took = asyncio.run(play())
            time.sleep(1)
            heard = listening.heard()
        finally:
            listening.close()
        expected = SECONDS * CHANGES * MEMBERS
        told("heard of a hundred that should be", 100 * len(heard["late"]) / expected, "")
        told("from a change to its listener, median", 1000 * percentile(heard["late"], 50), "ms")
        told("from a change to its listener, 95th percentile", 1000 * percentile(heard["late"], 95), "ms")
        told("from a change to its listener, slowest", 1000 * max(heard["late"], default=0), "ms")
        for kind, what in (("change", "a submission or cancellation"), ("ask", "another request")):
            told(f"{what}, median", 1000 * percentile(load.took[kind], 50), "ms")
            told(f"{what}, 95th percentile", 1000 * percentile(load.took[kind], 95), "ms")
        told("the scheduler's process", 100 * used / SECONDS, "% of a core")
        told("the load took", took, "s")
        told("the scheduler's memory, at most", memory(pid), "MB")
        told("sent to each listener", heard["received"] / max(1, listeners) / SECONDS, "B/s")
        told("connections lost", heard["lost"], "")


def main() -> None:
    match sys.argv[1:]:
        case ["--hub", port]:
            asyncio.run(hub(int(port)))
        case ["--listen", url, count, query]:
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            asyncio.run(listen(url, int(count), query))
        case sizes:
            numbers = [int(size) for size in sizes]
            listeners, queued = (*numbers, *(LISTENERS, QUEUED)[len(numbers) :])
            many(listeners, queued, "?view=true")


if __name__ == "__main__":
    main()
