"""Durable submissions per second that the scheduler acknowledges, over HTTP from 16 concurrent clients."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.client import AsyncClient
from scheduler.discovery.statefolder import StateFolder
from scheduler.model import JobState
from scheduler.schema import JobSubmit

CLIENTS = 16
WARM_UP = 300
JOBS = 3000


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = StateFolder(Path(place) / "state")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RUNAI_")}
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "scheduler.service.app",
                f"--state-dir={folder.path}",
                "--auth=token",
                "--log-level=40",
            ],
            env=environment,
        )
        try:
            while (endpoint := folder.endpoint()) is None:
                time.sleep(0.02)
            asyncio.run(measure(endpoint.url, folder.token(), Path(place) / "go-on"))
        finally:
            # The scheduler first, then the job that holds the pool, which ends with its file: no other job
            # starts.
            process.terminate()
            process.wait()


async def measure(url: str, token: str, flag: Path) -> None:
    flag.touch()
    async with AsyncClient(url, token) as client:
        gpus = (await client.pool()).train.gpus
        holder = await client.submit(
            JobSubmit(command=["sh", "-c", f"while [ -e {flag} ]; do sleep 0.2; done"], gpus=gpus)
        )
        async for event in client.events(0, subject=holder.id):
            if event.job is not None and event.job.state is JobState.RUNNING:
                break
        await submit(url, token, WARM_UP)
        began = time.perf_counter()
        times = sorted(await submit(url, token, JOBS))
        took = time.perf_counter() - began
        kept = len(times)
    tell(f"jobs acknowledged a second, {CLIENTS} clients at once", kept / took, "jobs/s")
    tell(f"an acknowledgement, the median of {kept}", times[kept // 2] * 1000, "ms")
    tell("an acknowledgement, the slowest of a hundred", times[kept * 99 // 100] * 1000, "ms")


def tell(figure: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": figure, "value": round(value, 2), "unit": unit}))


async def submit(url: str, token: str, jobs: int) -> list[float]:
    """Submit `jobs` jobs over `CLIENTS` connections, one request at a time on each; returns the seconds of each."""
    answered = await asyncio.gather(*(one_client(url, token, jobs // CLIENTS) for _ in range(CLIENTS)))
    return [seconds for times in answered for seconds in times]


async def one_client(url: str, token: str, jobs: int) -> list[float]:
    """A minimal client, so that only the scheduler is measured."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    body = JobSubmit(command=["python", "train.py", "--epochs", "3"], gpus=1).model_dump_json(exclude_unset=True)
    times: list[float] = []
    for number in range(jobs):
        began = time.perf_counter()
        head = (
            f"POST {address.path}api/v1/jobs HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}\r\n"
            f"Idempotency-Key: {id(times)}-{began}-{number}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write((head + body).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 201"):
            raise SystemExit(f"A submission was refused: {answer.decode()}")
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        times.append(time.perf_counter() - began)
    writer.close()
    return times


if __name__ == "__main__":
    main()
