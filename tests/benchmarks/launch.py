"""The time of the local engine to start a worker, compared with a bare Python, and to report its end and output."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scheduler.engines.base import Launch, WorkerState, WorkerStatus
from scheduler.engines.files import log_file
from scheduler.engines.local.engine import LocalEngine
from scheduler.model import JobId, JobKind, Node, NodeName, Program, UserName, WorkerPlacement

ROUNDS = 50
NODE = Node(NodeName("here"), 64)


def attempt(job: str, *command: str, workers: int = 1) -> Launch:
    placement = tuple(WorkerPlacement(NODE.name, (rank,)) for rank in range(workers))
    return Launch(JobId(job), 1, Program(JobKind.COMMAND, command), placement, {NODE.name: NODE}, {}, UserName("ada"))


def bare() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return time.perf_counter() - begun


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        ended: dict[str, asyncio.Future[float]] = {}

        def report(status: WorkerStatus) -> None:
            if status.state is not WorkerState.RUNNING and status.rank == 0:
                ended[status.job].set_result(time.time())

        engine = LocalEngine(Path(name))
        await engine.files.open()
        await engine.open(report)
        try:
            await starts(engine, ended)
            await output(engine, ended)
            await gang(engine, ended)
        finally:
            await engine.close()
            await engine.files.close()


async def starts(engine: LocalEngine, ended: dict[str, asyncio.Future[float]]) -> None:
    """One job after the other; each prints the start time of its process."""
    begins, ends = [], []
    for i in range(ROUNDS):
        job = f"start-{i}"
        ended[job] = asyncio.get_running_loop().create_future()
        begun = time.time()
        await engine.launch(attempt(job, "/bin/date", "+%s.%N"))
        told = await ended[job]
        printed = float(await engine.files.read(log_file(JobId(job), 1, 0), 0, 100))
        begins.append(printed - begun)
        ends.append(told - printed)
    bares = [bare() for _ in range(ROUNDS)]
    tell("launch → the user's process, against a bare python -I -S", ratio(begins, bares), "times")
    tell("launch → the user's process", 1000 * statistics.median(begins), "ms")
    tell("a bare python -I -S", 1000 * statistics.median(bares), "ms")
    tell("the user's process has printed its last → its end is told", 1000 * statistics.median(ends), "ms")


async def output(engine: LocalEngine, ended: dict[str, asyncio.Future[float]]) -> None:
    """The time from printing a line until a follower has it."""
    ended["output"] = asyncio.get_running_loop().create_future()
    ticks = "import os,time\nfor _ in range(200): os.write(1, b'%.6f\\n' % time.time()); time.sleep(0.01)"
    await engine.launch(attempt("output", sys.executable, "-I", "-S", "-c", ticks))
    seen, late = 0, []
    log = log_file(JobId("output"), 1, 0)
    while await engine.files.grown(log, seen):
        piece = await engine.files.read(log, seen, 65536)
        seen += len(piece)
        late += [time.time() - float(line) for line in piece.split()]
    tell("a line is printed → read, 95th percentile", 1000 * statistics.quantiles(late, n=20)[-1], "ms")


async def gang(engine: LocalEngine, ended: dict[str, asyncio.Future[float]]) -> None:
    ended["gang"] = asyncio.get_running_loop().create_future()
    begun = time.perf_counter()
    await engine.launch(attempt("gang", "/bin/sleep", "600", workers=8))
    tell("launch → a gang of 8 runs", 1000 * (time.perf_counter() - begun), "ms")
    await engine.stop(JobId("gang"), 1, 0)
    await ended["gang"]


def ratio(these: Sequence[float], those: Sequence[float]) -> float:
    return statistics.median(these) / statistics.median(those)


def tell(figure: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": figure, "value": value, "unit": unit}, ensure_ascii=False))


if __name__ == "__main__":
    asyncio.run(main())
