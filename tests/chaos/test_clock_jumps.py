"""The wall clock jumps, forward by a day and back by an hour, while jobs run: no limit ends a job, no pause becomes
longer, nothing is lost and no time is negative.

The test builds `clock.c` and preloads it into the scheduler and its child processes.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler.client import Client
from scheduler.model import JobState
from scheduler.schema import JobSubmit, JobView
from tests.app.conftest import Service, on

HOUR, DAY = 3600, 86400


class Clock:
    """A settable wall clock, and a Python that uses it, as do its child processes."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None or sys.platform != "linux":
            pytest.skip("needs cc on Linux, which this machine does not have")
        folder.mkdir()
        self._offset = folder / "offset"
        self.set(0)
        library, source = str(folder / "clock.so"), str(Path(__file__).with_name("clock.c"))
        defined = f'-DOFFSET="{self._offset}"'
        command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", defined, "-o", library, source, "-ldl"]
        subprocess.run(command, check=True)
        # The other files of the environment are beside it, so that it finds the same packages.
        self.python = folder / "bin/python"
        self.python.parent.mkdir()
        shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
        (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
        self.python.write_text(
            f'#!/bin/bash\nLD_PRELOAD={library} exec -a {self.python} {Path(sys.executable).resolve()} "$@"\n'
        )
        self.python.chmod(0o755)

    def set(self, seconds: int) -> None:
        """Set the offset from the machine's clock, in seconds. The file is memory-mapped and must not be truncated."""
        file = os.open(self._offset, os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(file, struct.pack("l", seconds), 0)
        os.close(file)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(tmp_path / "clock")
    monkeypatch.setattr(sys, "executable", str(made.python))
    return made


@pytest.fixture
def service(tmp_path: Path, clock: Clock) -> Iterator[Service]:
    with on(tmp_path) as found:
        yield found


def now(python: Path) -> float:
    return float(
        subprocess.run([python, "-c", "import time; print(time.time())"], capture_output=True, check=True).stdout
    )


def test_every_python_goes_by_the_clock(clock: Clock) -> None:
    """Checks the fake clock itself: without it, the test below would prove nothing."""
    before = now(clock.python)
    clock.set(DAY)
    assert now(clock.python) >= before + DAY
    nested = (
        "import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', 'import time; print(time.time())'])"
    )
    told = subprocess.run([clock.python, "-c", nested], capture_output=True, check=True, env={}).stdout
    assert float(told) >= before + DAY


def test_a_clock_that_jumps_ends_and_loses_nothing(service: Service, clock: Clock, tmp_path: Path) -> None:
    service.start()
    flag = tmp_path / "flag"
    flag.touch()
    waits = ["sh", "-c", f"while [ -e {flag} ]; do sleep 0.05; done"]
    sent = JobSubmit(command=waits, gpus=1, max_runtime=HOUR, idle_timeout=HOUR)
    with service.client() as client:
        steady = client.submit(sent).id
        waiting = client.submit(JobSubmit(command=["true"], after=[steady])).id
        service.until(partial(is_in, client, steady, JobState.RUNNING))
        failing = client.submit(JobSubmit(command=["false"], gpus=1, retries=2)).id
        service.until(lambda: len(client.job(failing).attempts) == 2)
        for jump in (DAY, -HOUR, 0, -DAY, HOUR):
            stopped = client.submit(JobSubmit(command=waits, gpus=1)).id
            service.until(partial(is_in, client, stopped, JobState.RUNNING))
            clock.set(jump)
            client.pause(stopped)
            service.until(partial(is_in, client, stopped, JobState.PAUSED))
            client.cancel(stopped)
            quick = client.submit(JobSubmit(command=["true"], gpus=1)).id
            assert client.wait(quick, 60).state is JobState.SUCCEEDED
            if jump < 0:
                service.kill()
                service.start()
            assert client.job(steady).state is JobState.RUNNING
            assert client.job(waiting).state is JobState.QUEUED
            for view in client.jobs().jobs:
                check_times(view)
            check_numbers(service, steady)
        flag.unlink()
        ended = client.wait(steady, 60)
        assert (ended.state, len(ended.attempts)) == (JobState.SUCCEEDED, 1), ended.reason
        assert client.wait(waiting, 60).state is JobState.SUCCEEDED
        assert len(client.wait(failing, 60).attempts) == 3


def test_a_job_that_saves_its_state_as_the_clock_is_set_back_has_not_succeeded(
    service: Service, clock: Clock, tmp_path: Path
) -> None:
    """It exits with 0 because it was asked to stop, though its end is before that by the clock."""
    service.start()
    ready, asked, go = (tmp_path / name for name in ("ready", "asked", "go"))
    saves = f"trap 'touch {asked}; while [ ! -e {go} ]; do sleep 0.05; done; exit 0' TERM"
    command = ["sh", "-c", f"{saves}; touch {ready}; while :; do sleep 0.05; done"]
    with service.client() as client:
        job = client.submit(JobSubmit(command=command, gpus=1)).id
        service.until(ready.exists)
        client.pause(job)
        service.until(asked.exists)
        clock.set(-HOUR)
        go.touch()
        service.until(partial(is_in, client, job, JobState.PAUSED))


def is_in(client: Client, job: str, state: JobState) -> bool:
    return client.job(job).state is state


def check_times(job: JobView) -> None:
    """Events are in order."""
    times = [job.submitted, *(t for a in job.attempts for t in (a.created, a.started, a.ended)), job.ended]
    known = [time for time in times if time is not None]
    assert known == sorted(known), job


def check_numbers(service: Service, job: str) -> None:
    """No displayed figure is negative."""
    endpoint = service.folder.endpoint()
    assert endpoint is not None
    headers = {"Authorization": f"Bearer {service.folder.read_token()}"}
    with httpx.Client(base_url=endpoint.url, headers=headers) as http:
        for path in ("pool", "projects", "jobs", f"jobs/{job}", f"jobs/{job}/explain"):
            assert_positive(http.get(f"api/v1/{path}").raise_for_status().json(), path)
        for line in http.get("metrics").raise_for_status().text.splitlines():
            assert line.startswith("#") or float(line.rsplit(" ", 1)[1]) >= 0, line


def assert_positive(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in ("exit_code", "exit_codes"):
                assert_positive(inner, f"{where}.{name}")
    elif isinstance(value, list):
        for inner in value:
            assert_positive(inner, where)
    elif isinstance(value, int | float):
        assert value >= 0, f"{where}: {value}"
