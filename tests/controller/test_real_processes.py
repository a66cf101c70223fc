"""The controller with the real policy and real processes, also under `kill -9`."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.controller import Controller
from scheduler.model import Environment, Job, JobId, JobState, ProjectName, Request, Session, SessionId, UserName
from tests.controller.scheduler_process import command, scheduling
from tests.engines.workplace import eventually

ROOT = Path(__file__).parents[2]


async def reaches(controller: Controller, job_id: str, *states: JobState) -> Job:
    events = controller.events(0)
    async with asyncio.timeout(60):
        while not (job := await controller.job(JobId(job_id))) or job.state not in states:
            await anext(events)
    await events.aclose()
    return job


async def finished(controller: Controller, job_id: str) -> Job:
    return await reaches(controller, job_id, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


async def test_a_command_runs_and_its_exit_status_is_the_jobs(tmp_path: Path) -> None:
    async with scheduling(tmp_path) as controller:
        good = await controller.submit(command("test $RUNAI_WORLD_SIZE = 2", workers=2))
        bad = await controller.submit(command("test $RUNAI_RANK != 1 || exit 7; sleep 60", workers=2, grace=5))
        missing = await controller.submit(command("exec no-such-program"))
        assert (await finished(controller, good.id)).state is JobState.SUCCEEDED
        failed = await finished(controller, bad.id)
        assert failed.reason == "Worker 2 of 2 (rank 1) ended with exit code 7."
        assert failed.attempts[0].exit_codes == (-15, 7)
        assert (await finished(controller, missing.id)).attempts[0].exit_codes == (127,)


async def test_a_paused_job_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    saves_itself = (
        'test -e "$RUNAI_CHECKPOINT_DIR/saved" && exit 0\n'
        "trap 'touch \"$RUNAI_CHECKPOINT_DIR/saved\"; exit 0' TERM\n"
        "echo ready; while :; do sleep 0.05; done"
    )
    async with scheduling(tmp_path) as controller:
        job = await controller.submit(command(saves_itself))
        await reaches(controller, job.id, JobState.RUNNING)
        log = tmp_path / "jobs" / job.id / "attempts/1/0/log"
        await eventually(lambda: b"ready" in log.read_bytes())
        await controller.pause(job.id)
        await reaches(controller, job.id, JobState.PAUSED)
        await controller.resume(job.id)
        done = await finished(controller, job.id)
        assert (done.state, len(done.attempts)) == (JobState.SUCCEEDED, 2)


async def test_a_session_is_leased_build_gpus(tmp_path: Path) -> None:
    async with scheduling(tmp_path) as controller:
        request = Request(ProjectName(""), UserName("ana"), Environment.BUILD, preemptible=False)
        session = await controller.open_session(Session(SessionId("s1"), "", request, 1.0))
        assert session.placement[0].node.endswith("-build")
        await controller.close_session(SessionId("s1"))
        assert not controller.book.sessions


@pytest.mark.parametrize("seed", range(3))
async def test_kill_9_at_any_instant_loses_no_job_and_runs_none_twice(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    acknowledged: list[str] = []
    for _ in range(3):
        count = chance.randrange(2, 6)
        process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in this loop meanwhile
            [sys.executable, "-m", "tests.controller.scheduler_process", str(tmp_path), str(count)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(chance.randrange(1, count + 1)):
            acknowledged.append(process.stdout.readline().strip())
        await asyncio.sleep(chance.random() * 0.3)
        process.kill()
        acknowledged += [line.strip() for line in process.stdout if line.endswith("\n") and line != "all\n"]
        process.stdout.close()
        process.wait()
    async with scheduling(tmp_path) as controller:
        everything = {job.id for job in await controller.jobs(limit=1000)}
        assert set(acknowledged) <= everything
        for job_id in everything:
            job = await finished(controller, job_id)
            assert (job.state, job.reason) == (JobState.SUCCEEDED, "Succeeded.")
            assert len(job.attempts) == 1
            traces = (tmp_path / "jobs" / job_id / "output" / "ran").read_text().splitlines()
            assert sorted(traces) == [f"1 {rank}" for rank in range(job.request.workers)]
