"""A job of real processes is paused for a shorter one, with `kill -9` of the scheduler in each state."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler.api import pausing
from scheduler.api.access import Access, Caller
from scheduler.controller import Controller
from scheduler.model import (
    BUILD_POOL,
    TRAIN_POOL,
    Environment,
    Job,
    JobState,
    NodePool,
    Pool,
    Project,
    ProjectName,
    QueueOrder,
    Settings,
    UserName,
)
from tests.controller.pause_process import now
from tests.controller.scheduler_process import command, scheduling
from tests.controller.test_real_processes import finished, reaches
from tests.engines.workplace import eventually

ROOT = Path(__file__).parents[2]
POOL = Pool(
    node_pools=(NodePool(BUILD_POOL, Environment.BUILD, gpus=1), NodePool(TRAIN_POOL, Environment.TRAIN)),
    projects=(Project(ProjectName("default"), members=frozenset({UserName("ana")})),),
    settings=Settings(order=QueueOrder.SERVED),
)
LONG = """
echo "$RUNAI_ATTEMPT" >> ran-long
touch -d "+9 hours" "$RUNAI_CHECKPOINT_DIR/state"
test "$RUNAI_ATTEMPT" = 1 && trap 'touch asked; until test -e end-long; do sleep 0.05; done; exit 0' TERM
echo ready > "ready-$RUNAI_ATTEMPT"
until test -e end-again; do sleep 0.05; done
"""


@asynccontextmanager
async def killed_when(folder: Path, there: str) -> AsyncIterator[Controller]:
    """Run a scheduler until a file exists, kill it, and run the next one during the block."""
    process = subprocess.Popen([sys.executable, "-m", "tests.controller.pause_process", str(folder)], cwd=ROOT)  # noqa: ASYNC220
    try:
        await eventually((folder / there).exists)
    finally:
        process.kill()
        process.wait()
    async with scheduling(folder, gpus=2, clock=now) as controller:
        yield controller


@pytest.fixture(autouse=True)
def _leave_no_process(tmp_path: Path) -> Iterator[None]:
    yield
    for name in ("end-long", "end-short", "end-again"):
        (tmp_path / name).touch()


def told(controller: Controller, job: Job) -> tuple[JobState, str]:
    access = Access(Caller(UserName("ana"), frozenset()), controller.book.pool)
    known = controller.book.jobs[job.id]
    return known.state, pausing.notice(known, None, controller.book, access)


async def test_a_killed_scheduler_remembers_whom_a_job_is_paused_for_and_runs_nothing_twice(tmp_path: Path) -> None:
    async with scheduling(tmp_path, gpus=2) as controller:
        await controller.apply(POOL)
        long = await controller.submit(command(f"cd {tmp_path}\n{LONG}"))
        await reaches(controller, long.id, JobState.RUNNING)
        await eventually((tmp_path / "ready-1").exists)
    async with killed_when(tmp_path, "asked") as controller:
        assert told(controller, long) == (JobState.STOPPING, "Saving its state to pause for a short job of ben.")
        (short,) = (job for job in controller.book.jobs.values() if job.id != long.id)
    (tmp_path / "end-long").touch()
    async with killed_when(tmp_path, "ran-short") as controller:
        await reaches(controller, short.id, JobState.RUNNING)
        unknown = "Paused for a short job of ben. The end of the pause is unknown."
        assert told(controller, long) == (JobState.QUEUED, unknown)
    (tmp_path / "end-short").touch()
    async with killed_when(tmp_path, "ready-2") as controller:
        await reaches(controller, long.id, JobState.RUNNING)
        assert told(controller, long)[1] == ""
        (tmp_path / "end-again").touch()
        done = [await finished(controller, job.id) for job in (long, short)]
    assert [(job.state, len(job.attempts)) for job in done] == [(JobState.SUCCEEDED, 2), (JobState.SUCCEEDED, 1)]
    assert [(tmp_path / f"ran-{name}").read_text().split() for name in ("long", "short")] == [["1", "2"], ["1"]]
