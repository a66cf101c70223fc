"""Jobs that wait for jobs, with a scheduler process that is killed; arrays on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.client.arrays import jobs_of
from scheduler.errors import NotFound
from scheduler.model import JobState
from scheduler.schema import ArrayMember, ArraySubmit, JobSubmit


def script(text: str, **rest: Any) -> JobSubmit:
    return JobSubmit(command=["sh", "-c", text], gpus=0, **rest)


@pytest.mark.parametrize("code", [0, 3])
def test_a_dependent_job_starts_though_the_scheduler_was_dead_meanwhile(
    scheduler: Any, tmp_path: Path, code: int
) -> None:
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    with scheduler.client() as client:
        first = client.submit(script(f"until [ -e {gate} ]; do sleep 0.02; done; touch {ran}; exit {code}"))
        then = client.submit(script("echo then", after=[first.id]))
        anyway = client.submit(script("echo anyway", after=[f"{first.id}:any", f"{then.id}:any"]))
        for event in client.events(0, subject=first.id):
            if event.job is not None and event.job.state is JobState.RUNNING:
                break
        scheduler.kill()
        gate.touch()
        scheduler.start()
        ended = client.wait(then.id, timeout=60)
        assert client.wait(anyway.id, timeout=60).state is JobState.SUCCEEDED
        assert ran.exists()
        if code:
            assert (ended.state, ended.attempts) == (JobState.CANCELLED, [])
            assert ended.reason == f"Job {first.name} has failed, and this job requires it to succeed."
        else:
            assert ended.state is JobState.SUCCEEDED
        assert (client.job(anyway.id).started or 0) >= (client.job(first.id).ended or 0)


def test_an_array_continues_after_a_kill_within_max_parallel(scheduler: Any, tmp_path: Path) -> None:
    work = f"echo $RUNAI_ARRAY_INDEX >> {tmp_path}/begun; sleep 0.2; echo $RUNAI_ARRAY_INDEX >> {tmp_path}/ended"
    with scheduler.client() as client:
        array = client.submit_array(
            ArraySubmit(job=script(work), members=[ArrayMember(index=i) for i in range(6)], max_parallel=2)
        )
        client.wait(array.jobs[1].id, timeout=60)
        scheduler.kill()
        scheduler.start()
        for job in array.jobs:
            assert client.wait(job.id, timeout=60).state is JobState.SUCCEEDED
        jobs = jobs_of(client, array.id)
        assert [job.index for job in jobs] == list(range(6))
        assert sorted((tmp_path / "begun").read_text().split()) == [str(i) for i in range(6)]
        for job in jobs:
            at = job.started or 0
            assert sum((one.started or 0) <= at < (one.ended or 0) for one in jobs) <= 2
        with pytest.raises(NotFound, match="no array a-none"):
            jobs_of(client, "a-none")


def test_an_array_on_the_command_line(scheduler: Any, tmp_path: Path) -> None:
    def runai(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "RUNAI_URL": scheduler.url, "RUNAI_TOKEN": scheduler.token}
        return subprocess.run(
            [sys.executable, "-m", "scheduler.cli", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    sent = runai("submit", "--no-files", "--gpus", "0", "--array", "3%1", "--", "sleep", "60")
    array = sent.stdout.strip()
    assert (sent.returncode, array[:2]) == (0, "a-"), sent.stderr
    assert "3 jobs in project default" in sent.stderr
    listed = runai("list", "--array", array)
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == [f"{array}-{i}" for i in (2, 1, 0)]
    cancelled = runai("cancel", array)
    assert cancelled.returncode == 0
    assert len(cancelled.stdout.splitlines()) == 3
    refused = runai("submit", "--no-files", "--after", f"{array}-0", "--", "true")
    assert refused.returncode == 1
    assert "no job can wait for its success" in refused.stderr or "that you may see" in refused.stderr
    assert runai("cancel", "a-none").stderr.startswith("There is no array a-none")
