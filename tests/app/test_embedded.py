"""A scheduler for one user: found if it runs, started otherwise, and only once for any number of callers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from scheduler.discovery.embedded import LOG, ensure, find
from scheduler.errors import Unavailable
from scheduler.schema import JobSubmit
from tests.app.conftest import until

if TYPE_CHECKING:
    from tests.app.conftest import Service

ASK = (
    "import sys, pathlib; from scheduler.discovery.embedded import ensure; print(ensure(pathlib.Path(sys.argv[1])).pid)"
)


def test_concurrent_callers_get_the_same_scheduler(service: Service) -> None:
    def ask(_: int) -> str:
        words = [sys.executable, "-c", ASK, str(service.folder.path)]
        return subprocess.run(
            words, env=service.environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, range(4)))
    found = find(service.folder.path)
    assert found is not None
    assert answers == [f"{found.pid}\n"] * 4


def test_a_scheduler_started_by_other_means_is_found(service: Service) -> None:
    assert find(service.folder.path) is None
    endpoint = service.start()
    assert ensure(service.folder.path) == endpoint


def test_it_outlives_its_starter_and_is_restarted_after_kill_9(service: Service) -> None:
    first = ensure(service.folder.path)
    assert os.getsid(first.pid) == first.pid != os.getsid(0)
    assert ensure(service.folder.path) == first
    os.kill(first.pid, 9)
    second = ensure(service.folder.path)
    assert second.pid != first.pid
    assert find(service.folder.path) == second


def test_in_a_job_none_is_started(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNAI_JOB_ID", "j-1")
    with pytest.raises(Unavailable, match="This code already runs in a job"):
        ensure(service.folder.path)
    assert service.folder.holder() is None
    running = service.start()
    assert ensure(service.folder.path) == running


def test_the_command_line_starts_one_where_none_answers_and_says_so(service: Service) -> None:
    done = service.cli("submit", "--wait", "--no-files", "--", "echo", "hello")
    assert done.stdout.endswith("\nhello\n")
    assert "No scheduler answered, so one was started (process " in done.stderr
    again = service.cli("list", "-o", "json")
    assert again.stderr == ""
    assert json.loads(again.stdout)[0]["state"] == "succeeded"


def test_its_log_and_environment_have_no_tokens_of_the_caller(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    monkeypatch.setenv("JUPYTERHUB_SERVICE_NAME", "somebody")
    monkeypatch.setenv("RUNAI_TOKEN", "secret")
    endpoint = ensure(service.folder.path)
    assert b"secret" not in Path(f"/proc/{endpoint.pid}/environ").read_bytes()
    token = service.folder.read_token()
    assert token is not None
    assert token not in (service.folder.path / LOG).read_text()


def test_a_failed_start_is_explained(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNAI_DB_URL", "sqlite:////no/such/folder/runai.sqlite")
    with pytest.raises(Unavailable, match=r"The scheduler could not start: .*/no/such/folder"):
        ensure(service.folder.path)


def test_a_stale_endpoint_is_ignored(service: Service) -> None:
    service.start()
    service.kill()
    assert (service.folder.path / "endpoint.json").exists()
    assert find(service.folder.path) is None
    assert service.folder.endpoint() is None


def test_an_idle_scheduler_ends_and_a_busy_one_continues(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.discovery.embedded.IDLE", 0.5)
    first = ensure(service.folder.path)
    with service.client() as client:
        job = client.submit(JobSubmit(command=["sleep", "600"]))
    with pytest.raises(psutil.TimeoutExpired):
        psutil.Process(first.pid).wait(2)
    with service.client() as client:
        client.cancel(job.id)
        client.wait(job.id)
    until(lambda: not psutil.pid_exists(first.pid) or psutil.Process(first.pid).status() == psutil.STATUS_ZOMBIE)
    assert find(service.folder.path) is None
    assert ensure(service.folder.path).pid != first.pid
