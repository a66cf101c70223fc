"""The running service with 100,000 waiting jobs in one project: the time until a change is planned and shown, the
response times of other requests meanwhile, and how long the event loop is held.

One job holds all GPUs but one. Jobs of another project get that one in turn; jobs of the crowd are cancelled ahead of a
row that a panel shows. Meanwhile the crowd changes, starts are estimated, and other requests arrive: reads,
explanations, checks, dry runs, and previews of an administrator's change.

How long the loop is held is measured in the service: by how much a timer of 5 ms is late, less the time in which the
system let the loop's thread wait for a processor.

    python crowded.py [WAITING [FILE]]     where the loop was held for long, the stacks of all threads go to FILE
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))

from scheduler.client import Client
from scheduler.model import (
    Job,
    JobId,
    JobKind,
    JobState,
    Pool,
    Program,
    Project,
    ProjectName,
    Request,
    Shape,
    UserName,
)
from scheduler.schema import JobSubmit
from scheduler.service import app
from scheduler.store import ChangeSet
from tests.benchmarks.events import ADMIN, Connection, percentile, service, write

WAITING = 100_000
USERS = 500
ROUNDS = 40
SHOWN = 100
"""Rows of the crowd that the panel shows, from the front."""
CHANGES, ASKED = 5, 20
"""Changes of the crowd and other requests, per second."""
THOUGHT = 0.5
"""Seconds between dry runs and previews."""
BEAT, LONG = 0.005, 0.01
"""Seconds between two looks at the loop; how late one is when stacks are recorded."""
SUBMITTED = JobSubmit(command=["python", "train.py"], gpus=2).model_dump_json(exclude_unset=True).encode()


def main(waiting: int = WAITING, stacks: str = "") -> None:
    projects = (
        Project(ProjectName("holder"), guaranteed=1_000_000),
        Project(ProjectName("quick"), guaranteed=1000, limit=1000, members=frozenset({UserName("quick")})),
        Project(ProjectName("crowd"), members=frozenset(user_of(n) for n in range(USERS))),
    )
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as pool:
        write(pool.folder, ChangeSet(pool=Pool(projects=projects)))
        with pool.serving() as (url, _), Client(url, ADMIN) as client:
            gpus = client.pool().train.gpus - 1
            holder = client.submit(JobSubmit(command=pool.wait, gpus=gpus, project="holder"))
            while client.job(holder.id).state is not JobState.RUNNING:
                time.sleep(0.02)
        write(pool.folder, ChangeSet(submitted=tuple(crowd(waiting))))
        beats = Path(folder) / "beats"
        with pool.serving((__file__, "--serve", str(beats), stacks)) as (url, _):
            asyncio.run((play := Play(url, waiting)).run())
        held = [late for at, late in json.loads(beats.read_text()) if play.began <= at <= play.ended]
        tell("the event loop is held, 99th percentile", percentile(held, 99) * 1000, "ms")
        tell("the event loop is held, longest", max(held) * 1000, "ms")


def user_of(n: int) -> UserName:
    return UserName(f"user-{n % USERS}")


def crowd(waiting: int) -> Iterator[Job]:
    now = time.time()
    for n in range(waiting):
        request = Request(ProjectName("crowd"), user_of(n), shape=Shape(2000))
        program = Program(JobKind.COMMAND, ("python", "train.py"))
        yield Job(JobId(f"j-{n:012}"), f"train-{n}", request, program, submitted=now - waiting + n)


class Play:
    """The load, and the durations measured, in seconds."""

    def __init__(self, url: str, waiting: int) -> None:
        self._url = url
        self._waiting = waiting
        self.took: dict[str, list[float]] = {
            kind: [] for kind in ("plan", "shown", "change", "ask", "dry run", "preview")
        }
        self.began = self.ended = 0.0
        self._began: dict[str, asyncio.Future[float]] = {}
        self._moved: asyncio.Future[float] | None = None

    async def run(self) -> None:
        shown = "".join(f"&shows=j-{n:012}" for n in range(10 * ROUNDS, 10 * ROUNDS + SHOWN))
        listening = [
            asyncio.create_task(self._listen(f"events?view=true{shown}", "user-0", self._row_moved)),
            asyncio.create_task(self._listen("events", "quick", self._job_started)),
        ]
        await asyncio.sleep(5)
        others = [asyncio.create_task(work) for work in (self._change(), self._ask(), self._try(), self._preview())]
        before, self.began = await self._planned(), time.time()
        for number in range(ROUNDS):
            await self._start_one()
            await self._move_a_row(number)
        after, self.ended = await self._planned(), time.time()
        for task in (*others, *listening):
            if task.done():
                task.result()
            task.cancel()
        plans = (after["sum"] - before["sum"]) / (after["count"] - before["count"])
        tell(f"a plan with {self._waiting:,} jobs waiting", plans * 1000, "ms")
        for kind, what in (("plan", "from a submission to its start"), ("shown", "from a change to the panel")):
            self._tell(kind, what, 50, "median")
            self._tell(kind, what, 95, "95th percentile")
        for kind, what in (("change", "a submission or cancellation"), ("ask", "a read")):
            self._tell(kind, what, 50, "median")
            self._tell(kind, what, 99, "99th percentile")
        for kind in ("dry run", "preview"):
            self._tell(kind, f"a {kind}", 50, "median")

    def _tell(self, kind: str, what: str, part: int, which: str) -> None:
        tell(f"{what}, {which}", percentile(self.took[kind], part) * 1000, "ms")

    async def _planned(self) -> dict[str, float]:
        text = (await Connection(self._url).ask("GET", "/metrics", ADMIN)).decode()
        return {part: float(value) for part, value in re.findall(r"runai_plan_seconds_(sum|count) (\S+)", text)}

    # -- measurements -------------------------------------------------------------------------------------

    async def _start_one(self) -> None:
        """Submit a job that can start at once."""
        began = time.monotonic()
        body = JobSubmit(command=["true"], gpus=1).model_dump_json(exclude_unset=True).encode()
        job = json.loads(await Connection(self._url).ask("POST", "jobs", "quick", body))["id"]
        started = self._began.setdefault(job, asyncio.get_running_loop().create_future())
        self.took["plan"].append(await asyncio.wait_for(started, 60) - began)
        ended = self._began.setdefault(f"{job} ended", asyncio.get_running_loop().create_future())
        await asyncio.wait_for(ended, 60)

    async def _move_a_row(self, number: int) -> None:
        """Cancel a job ahead of those that the panel shows."""
        self._moved = asyncio.get_running_loop().create_future()
        began = time.monotonic()
        id = f"j-{number:012}"
        await Connection(self._url).ask("POST", f"jobs/{id}/cancel", user_of(number))
        self.took["shown"].append(await asyncio.wait_for(self._moved, 60) - began)

    def _job_started(self, event: dict[str, Any]) -> None:
        job = event.get("job") or {}
        if event["kind"] == "job.state" and job["state"] in ("starting", "succeeded"):
            name = event["subject"] if job["state"] == "starting" else f"{event['subject']} ended"
            told = self._began.setdefault(name, asyncio.get_running_loop().create_future())
            if not told.done():
                told.set_result(time.monotonic())

    def _row_moved(self, event: dict[str, Any]) -> None:
        if event["kind"] == "view.figures" and event["data"].get("jobs") and self._moved and not self._moved.done():
            self._moved.set_result(time.monotonic())

    async def _listen(self, path: str, token: str, heard: Any) -> None:
        address = urlsplit(self._url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**24)
        writer.write(
            f"GET {address.path}api/v1/{path} HTTP/1.1\r\nHost: {address.netloc}\r\n"
            f"Authorization: token {token}\r\nAccept: text/event-stream\r\n\r\n".encode()
        )
        while line := await reader.readline():
            if line.startswith(b"HTTP/1.1 4"):
                raise SystemExit(f"A listener was refused: {line.decode()}")
            if line.startswith(b"data: "):
                heard(json.loads(line[6:]))

    # -- background load ----------------------------------------------------------------------------------

    async def _change(self) -> None:
        connection, last = Connection(self._url), self._waiting
        while True:
            for _ in range(2):
                await asyncio.sleep(1 / CHANGES)
                last -= 1
                path, data = (f"jobs/j-{last:012}/cancel", b"") if last % 2 else ("jobs", SUBMITTED)
                await self._timed("change", connection, "POST", path, user_of(last), data)

    async def _ask(self) -> None:
        connection = Connection(self._url)
        while True:
            for path in ("me", "jobs?mine=true", "pool", "projects", "jobs/{}", "jobs/{}/explain", "jobs/check"):
                await asyncio.sleep(1 / ASKED)
                job = self._waiting // 2 + 3
                method, body = ("POST", SUBMITTED) if path == "jobs/check" else ("GET", b"")
                await self._timed("ask", connection, method, path.format(f"j-{job:012}"), user_of(job), body)

    async def _try(self) -> None:
        connection = Connection(self._url)
        while True:
            await self._timed("dry run", connection, "POST", "jobs/dry-run", user_of(1), SUBMITTED)
            await asyncio.sleep(THOUGHT)

    async def _preview(self) -> None:
        connection, body = Connection(self._url), json.dumps({"name": "quick", "guaranteed": 7}).encode()
        while True:
            await self._timed("preview", connection, "POST", "pool/preview", ADMIN, body)
            await asyncio.sleep(THOUGHT)

    async def _timed(
        self, kind: str, connection: Connection, method: str, path: str, user: str, body: bytes = b""
    ) -> None:
        began = time.monotonic()
        await connection.ask(method, path, user, body)
        self.took[kind].append(time.monotonic() - began)


# -- in the service ---------------------------------------------------------------------------------------


class Beats(asyncio.DefaultEventLoopPolicy):
    """Looks at the service's event loop every few milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[tuple[float, float]] = []
        self.due = 0.0

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        loop.call_soon(lambda: setattr(self, "task", loop.create_task(self._beat())))
        return loop

    async def _beat(self) -> None:
        while True:
            before = unscheduled()
            self.due = time.monotonic() + BEAT
            await asyncio.sleep(BEAT)
            late = time.monotonic() - self.due
            self.late.append((time.time(), max(0.0, late - (unscheduled() - before))))

    def watch(self, file: str) -> None:
        """Write the stacks of all threads, once for each long hold."""
        seen = 0.0
        with open(file, "w", encoding="utf-8", buffering=1) as out:
            while True:
                time.sleep(BEAT / 2)
                if self.due and self.due != seen and (late := time.monotonic() - self.due) > LONG:
                    seen = self.due
                    print(f"\n{time.time():.3f}: {late * 1000:.0f} ms late", file=out)
                    faulthandler.dump_traceback(out)


def unscheduled() -> float:
    """The seconds that this thread has waited for a processor."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def serve(beats: Path, stacks: str, options: list[str]) -> int:
    asyncio.set_event_loop_policy(policy := Beats())
    if stacks:
        threading.Thread(target=policy.watch, args=(stacks,), daemon=True).start()
    try:
        return app.main(options)
    finally:
        beats.write_text(json.dumps(policy.late))


def tell(figure: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": f"crowded: {figure}", "value": round(value, 2), "unit": unit}), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--serve", beats, stacks, *options]:
            sys.exit(serve(Path(beats), stacks, options))
        case [waiting, *stacks]:
            main(int(waiting), *stacks)
        case _:
            main()
