"""`make soak MINUTES=120`: 20 events a second for a long time, and whether the scheduler's memory stays flat.
`make soak DAYS=1` runs `test_a_day` for one simulated day.

A real scheduler with real jobs, three listeners and a reader of the API. Every second one job runs, one waiting job is
cancelled and replaced, and waiting jobs are paused and resumed: 20 durable events. Memory is sampled every 10 s and
printed every minute; the last line gives the growth.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from scheduler.client import AsyncClient
from scheduler.model import JobState
from scheduler.schema import JobSubmit, ProjectEntry
from tests.app.conftest import Service, end_all

LISTENERS = 3
CHANGES = ((0.0, "run"), (0.3, "replace"), *((number / 7, "toggle") for number in range(7)))
"""The actions of each second: 4 events for the running job, 2 for the replaced one, 14 for the others."""
WAITING = 50
PERIOD = 10.0
"""Seconds between two samples."""
MIB = 2**20


@dataclass
class Soak:
    client: AsyncClient
    http: httpx.AsyncClient
    process: psutil.Process
    waiting: list[str] = field(default_factory=list)
    heard: list[int] = field(default_factory=lambda: [0] * LISTENERS)
    missed: int = 0
    latencies: list[float] = field(default_factory=list)
    samples: list[tuple[float, float]] = field(default_factory=list)
    """Seconds since the beginning, MiB."""

    async def prepare(self) -> None:
        """A project at its limit of one GPU, so that its other jobs wait."""
        await self.client.project_put(ProjectEntry(name="waiting", limit=1, members=["*"]))
        holder = await self.client.submit(JobSubmit(command=["sleep", "infinity"], project="waiting", gpus=1))
        async for event in self.client.events(0, subject=holder.id):
            if event.job is not None and event.job.state is JobState.RUNNING:
                break
        for _ in range(WAITING):
            await self._submit()

    async def _submit(self) -> None:
        job = await self.client.submit(JobSubmit(command=["true"], project="waiting", gpus=1))
        self.waiting.append(job.id)

    # -- the load -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        await self.client.submit(JobSubmit(command=["true"], gpus=0.1))

    async def replace(self) -> None:
        await self.client.cancel(self.waiting.pop(0))
        await self._submit()

    async def toggle(self) -> None:
        """Pause a waiting job, and resume it."""
        job = self.waiting.pop(0)
        await self.client.pause(job)
        await self.client.resume(job)
        self.waiting.append(job)

    async def listen(self, number: int) -> None:
        """Count the events without parsing them."""
        last = 0
        stream = self.http.stream("GET", "events", headers={"Accept": "text/event-stream"}, timeout=None)
        async with stream as answer:
            async for line in answer.aiter_lines():
                if line.startswith("id:") and (event := int(line[3:])) > last:  # else it is transient
                    self.missed += event - last - 1 if self.heard[number] else 0
                    self.heard[number] += 1
                    last = event

    def reads(self) -> Iterator[Callable[[], Awaitable[object]]]:
        """Request the views of a panel and of an administrator, in turn."""
        while True:
            yield from (self.client.me, self.client.pool, self.client.projects, self.client.jobs)
            yield lambda: self.client.explain(self.waiting[-1])
            yield self.client.snapshot

    async def read(self, ask: Callable[[], Awaitable[object]]) -> None:
        began = time.perf_counter()
        await ask()
        self.latencies.append(time.perf_counter() - began)

    # -- measurement --------------------------------------------------------------------------------------

    async def soak(self, seconds: float) -> None:
        begin = time.monotonic()
        listeners = [asyncio.create_task(self.listen(number)) for number in range(LISTENERS)]
        used = sum(self.process.cpu_times()[:2])
        reads = self.reads()
        doing = {asyncio.create_task(self.sample(begin))}
        plan = ((second + at, what) for second in itertools.count() for at, what in sorted((*CHANGES, (0.5, "read"))))
        for at, what in plan:
            if at >= seconds:
                break
            await asyncio.sleep(begin + at - time.monotonic())
            task = asyncio.create_task(self.read(next(reads)) if what == "read" else getattr(self, what)())
            doing.add(task)
            done = {each for each in doing if each.done()}
            for each in (*done, *(each for each in listeners if each.done())):
                each.result()  # an error ends the soak
            doing -= done
        took = time.monotonic() - begin
        for task in (*doing, *listeners):
            task.cancel()
        await asyncio.gather(*doing, *listeners, return_exceptions=True)
        self.tell(took, sum(self.process.cpu_times()[:2]) - used)

    async def sample(self, begin: float) -> None:
        for number in itertools.count(1):
            now = time.monotonic() - begin
            self.samples.append((now, self.process.memory_info().rss / MIB))
            if number % 6 == 1:
                print(
                    f"{time.strftime('%H:%M:%S')}  {now / 60:6.1f} min  {self.samples[-1][1]:7.1f} MiB  "
                    f"{self.heard[0]:8d} events",
                    flush=True,
                )
            await asyncio.sleep(begin + number * PERIOD - time.monotonic())

    def tell(self, took: float, used: float) -> None:
        figures = [
            ("real time", took / 60, "min"),
            ("events", min(self.heard), ""),
            ("events a second", min(self.heard) / took, "1/s"),
            (f"events that one of {LISTENERS} listeners missed", self.missed, ""),
            ("the scheduler's part of a core", used / took * 100, "%"),
            ("a read, median", statistics.median(self.latencies) * 1000, "ms"),
            ("a read, 95th percentile", sorted(self.latencies)[len(self.latencies) * 95 // 100] * 1000, "ms"),
            ("memory at the start", self.samples[0][1], "MiB"),
            ("memory at the end", self.samples[-1][1], "MiB"),
        ]
        later = [memory for at, memory in self.samples if at >= 600]
        if later:
            figures.insert(-1, ("memory after 10 minutes", later[0], "MiB"))
        half = self.samples[len(self.samples) // 2 :]
        if len(half) > 1:
            slope = statistics.linear_regression(*zip(*half, strict=True)).slope * 3600
            figures.append(("growth in the second half", slope, "MiB/h"))
        for figure, value, unit in figures:
            print(json.dumps({"figure": f"soak: {figure}", "value": round(value, 2), "unit": unit}), flush=True)


async def soak(service: Service, seconds: float) -> None:
    """Raises the error of any request: none may fail."""
    assert service.process is not None
    endpoint, token = service.folder.endpoint(), service.folder.read_token()
    assert endpoint is not None
    assert token is not None
    http = httpx.AsyncClient(base_url=f"{endpoint.url}api/v1/", headers={"Authorization": f"Bearer {token}"})
    async with http, AsyncClient(endpoint.url, token) as client:
        found = Soak(client, http, psutil.Process(service.process.pid))
        await found.prepare()
        await found.soak(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--days", type=float, help="of virtual time, instead")
    arguments = parser.parse_args()
    if arguments.days is not None:
        form = Path(__file__).with_name("test_a_day.py")
        command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:logging", str(form)]
        sys.exit(subprocess.run(command, env={**os.environ, "RUNAI_DAYS": str(arguments.days)}, check=False).returncode)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it cleans up
    with tempfile.TemporaryDirectory(prefix="runai-soak-") as folder:
        service = Service(Path(folder), "--auth=token", "--declared-gpus=8")
        try:
            service.start()
            asyncio.run(soak(service, arguments.minutes * 60))
        finally:
            end_all(Path(folder))


if __name__ == "__main__":
    main()
