"""Elastic jobs of real processes: they grow, shrink, resume from their saved state, and no GPU has two owners."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.controller import Controller, checkpoints
from scheduler.model import (
    BUILD_POOL,
    ONE,
    TRAIN_POOL,
    Environment,
    Job,
    JobId,
    JobKind,
    JobState,
    NodePool,
    Pool,
    Program,
    Project,
    ProjectName,
    Request,
    Settings,
    UserName,
)
from tests.controller.scheduler_process import scheduling
from tests.controller.test_real_processes import finished, reaches

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("elastic_worker.py")

POOL = Pool(
    node_pools=(NodePool(BUILD_POOL, Environment.BUILD, gpus=1), NodePool(TRAIN_POOL, Environment.TRAIN)),
    projects=(Project(ProjectName("default")), Project(ProjectName("speech"), guaranteed=2 * ONE)),
    settings=Settings(resize_interval=0.3),
)
"""Three GPUs to train on."""


def job(name: str, folder: Path, project: str = "default", workers: int = 1, least: int = 1) -> Job:
    """An elastic job that runs until `folder` has the file `done`."""
    folder.mkdir(exist_ok=True)
    return Job(
        id=JobId(name),
        name=name,
        request=Request(ProjectName(project), UserName("ana"), workers=workers, min_workers=least),
        program=Program(JobKind.COMMAND, (sys.executable, str(WORKER), str(folder))),
        submitted=time.time(),
    )


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.02)


async def sized(controller: Controller, job: Job, workers: int) -> Job:
    """The job once it runs with this many workers."""
    await until(lambda: len(controller.book.jobs[job.id].placement) == workers)
    return await reaches(controller, job.id, JobState.RUNNING)


def line(state: Path, job: Job) -> list[dict[str, int]]:
    """The job's reports over all its attempts."""
    file = state / "jobs" / job.id / "output" / "metrics.jsonl"
    return [json.loads(each) for each in file.read_text().splitlines()] if file.exists() else []


async def goes_on(state: Path, job: Job, attempt: int) -> None:
    """This attempt continues after the last step of the previous one: no step is missing or repeated."""
    await until(lambda: any(point["attempt"] == attempt for point in line(state, job)))
    steps = [point["step"] for point in line(state, job)]
    assert steps == list(range(1, len(steps) + 1))


async def test_a_job_grows_when_others_end_and_shrinks_when_others_are_due_its_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", 0.1)
    state, locks = tmp_path / "state", tmp_path / "gpus"
    state.mkdir()
    async with scheduling(state, gpus=4) as controller:
        await controller.apply(POOL)
        other = await controller.submit(job("other", tmp_path / "other", workers=2, least=2))
        await reaches(controller, other.id, JobState.RUNNING)
        elastic = await controller.submit(job("elastic", locks, workers=3))
        await sized(controller, elastic, 1)
        await until(lambda: len(line(state, elastic)) > 3)
        (tmp_path / "other" / "done").touch()
        grown = await sized(controller, elastic, 3)
        await goes_on(state, elastic, 2)

        due = await controller.submit(job("due", locks, project="speech", workers=2, least=2))
        shrunk = await sized(controller, elastic, 1)
        await goes_on(state, elastic, 3)
        await reaches(controller, due.id, JobState.RUNNING)
        (locks / "done").touch()
        done = await finished(controller, elastic.id)
        assert done.state is JobState.SUCCEEDED
        assert (await finished(controller, due.id)).state is JobState.SUCCEEDED
    assert [len(grown.attempts), len(shrunk.attempts), len(done.attempts)] == [2, 3, 3]
    assert [attempt.reason for attempt in done.attempts] == [
        "Grew from 1 to 3 workers: GPUs were idle.",
        "Released 2 of 3 workers: project speech reclaims GPUs for due.",
        "Succeeded.",
    ]
    assert {point["attempt"]: point["workers"] for point in line(state, elastic)} == {1: 1, 2: 3, 3: 1}
    assert (locks / "asked-2-0").exists(), "It is asked to save its state."
    assert not (locks / "twice").exists(), (locks / "twice").read_text()


@pytest.mark.parametrize("killed_while", ["it saves its state", "its last worker ends"])
async def test_kill_9_of_the_scheduler_in_the_middle_of_it(tmp_path: Path, killed_while: str) -> None:
    state, locks, first = tmp_path / "state", tmp_path / "gpus", tmp_path / "first"
    state.mkdir()
    scheduler = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in this loop meanwhile
        [sys.executable, "-m", "tests.controller.test_elastic_processes", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert scheduler.stdout is not None
        assert scheduler.stdout.readline() == "both run\n"
        (first / "done").touch()
        await until((locks / "asked-1-0").exists)
        if killed_while == "its last worker ends":
            await until(lambda: not any(locks.glob("gpu-*")))
    finally:
        os.kill(scheduler.pid, signal.SIGKILL)
        scheduler.wait()
        assert scheduler.stdout is not None
        scheduler.stdout.close()
    async with scheduling(state, gpus=4) as controller:
        grown = await sized(controller, job("elastic", locks), 3)
        assert len(grown.attempts) == 2
        await goes_on(state, grown, 2)
        (locks / "done").touch()
        assert (await finished(controller, grown.id)).state is JobState.SUCCEEDED
    assert not (locks / "twice").exists(), (locks / "twice").read_text()


async def main(folder: Path) -> None:
    """A scheduler to be killed, with a job that is about to grow."""
    checkpoints.EVERY = 0.1
    async with scheduling(folder / "state", gpus=4) as controller:
        await controller.apply(POOL)
        first = await controller.submit(job("first", folder / "first", workers=2, least=2))
        await reaches(controller, first.id, JobState.RUNNING)
        elastic = await controller.submit(job("elastic", folder / "gpus", workers=3))
        await sized(controller, elastic, 1)
        await until(lambda: len(line(folder / "state", elastic)) > 3)
        print("both run", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
