"""A scheduler's engine to be killed: forks one for each line of standard input, and prints when it begins.

A line is JSON: `state_dir`, `job`, `workers`, `command`, `stop` (grace, or null). Forking is faster than starting a
Python with the engine's imports (a third of a second), so more instants can be tried.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from scheduler.engines.local.engine import LocalEngine
from scheduler.model import JobId
from tests.engines.workplace import launch


def say(word: str) -> None:
    """Print a whole line or none: the process may be killed at any instant."""
    os.write(1, f"{word}\n".encode())


async def scheduler(state_dir: str, job: str, workers: int, command: list[str], stop: float | None) -> None:
    engine = LocalEngine(Path(state_dir))
    await engine.open(lambda status: None)
    say(str(os.getpid()))
    await engine.launch(launch(job, tuple(command), workers=workers))
    if stop is not None:
        await engine.stop(JobId(job), 1, stop)
    say("done")
    await asyncio.sleep(600)


for line in sys.stdin:
    if os.fork() == 0:
        asyncio.run(scheduler(**json.loads(line)))
    os.wait()
    say("dead")
