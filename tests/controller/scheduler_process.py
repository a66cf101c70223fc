"""A scheduler in a separate process, to be killed: `python -m … STATE_DIR COUNT` submits COUNT jobs and keeps running.

It prints the id of each acknowledged job on a line.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from scheduler.controller import Controller
from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.backend import Setup
from scheduler.engines.local.backend import local
from scheduler.model import Job, JobId, JobKind, Program, ProjectName, Request, UserName
from scheduler.store import Store

LEAVES_A_TRACE = 'echo "$RUNAI_ATTEMPT $RUNAI_RANK" >> "$RUNAI_OUTPUT_DIR/ran"; sleep 0.4'


@asynccontextmanager
async def scheduling(
    state_dir: Path, gpus: int = 8, clock: Callable[[], float] = time.time
) -> AsyncIterator[Controller]:
    """A controller with the real policy, real processes and a real database."""
    store = Store(f"sqlite:///{state_dir}/runai.sqlite")
    store.open()
    controller = Controller(store, local(Setup(StateFolder(state_dir), declared_gpus=gpus)), clock=clock)
    await controller.start()
    try:
        yield controller
    finally:
        await controller.stop()
        store.close()


def command(
    script: str, *, workers: int = 1, user: str = "ana", expected_runtime: float | None = None, **more: float
) -> Job:
    return Job(
        id=JobId(uuid.uuid4().hex),
        name="trace",
        request=Request(
            ProjectName("default"),
            UserName(user),
            workers=workers,
            min_workers=workers,
            expected_runtime=expected_runtime,
        ),
        program=Program(JobKind.COMMAND, ("sh", "-c", script), **more),  # type: ignore[arg-type]
        submitted=time.time(),
    )


async def main(state_dir: Path, count: int) -> None:
    async with scheduling(state_dir) as controller:
        for _ in range(count):
            job = await controller.submit(command(LEAVES_A_TRACE, workers=1 + count % 2))
            print(job.id, flush=True)
        print("all", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
