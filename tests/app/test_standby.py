"""Two schedulers, one of them the leader: on one machine, the lock on their state folder elects it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hub_spawner.ports import any_free
from scheduler.schema import JobSubmit
from tests.app.conftest import Service, end_all, until
from tests.store.conftest import postgresql_server, postgresql_url

__all__ = ["postgresql_server", "postgresql_url"]


@pytest.fixture
def service(tmp_path: Path, postgresql_url: str) -> Iterator[Service]:
    found = Service(tmp_path, "--declared-gpus=4", f"--db-url={postgresql_url}", "--RunaiService.standby=True")
    yield found
    end_all(tmp_path)
    for process in found.spawned:
        process.wait()


def answer_of(port: int, path: str) -> httpx.Response | None:
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False)
    except httpx.TransportError:
        return None


def beside(service: Service) -> tuple[subprocess.Popen[bytes], int]:
    """A second scheduler, as standby."""
    port = any_free()
    process = service.spawn(f"--port={port}")
    until(lambda: answer_of(port, "/healthz"))
    return process, port


def test_a_standby_is_alive_not_ready_and_names_the_leader(service: Service) -> None:
    leader = service.start()
    _, port = beside(service)
    alive = answer_of(port, "/healthz")
    assert alive is not None
    assert alive.status_code == 200
    for path in ("/readyz", "/api/v1/jobs"):
        told = answer_of(port, path)
        assert told is not None
        assert told.status_code == 503
        assert told.json()["detail"] == f"This scheduler is a standby; the leader is at {leader.url}."


@pytest.mark.parametrize("orderly", [False, True])
def test_a_standby_takes_over_and_the_jobs_keep_running(service: Service, orderly: bool, tmp_path: Path) -> None:
    service.start()
    standby, port = beside(service)
    until_told = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    with service.client() as client:
        job = client.submit(JobSubmit(command=["sh", "-c", until_told], gpus=1))
        until(lambda: client.job(job.id).state == "running")
    if orderly:
        assert service.stop() == 0
    else:
        service.kill()
    until(lambda: (told := answer_of(port, "/readyz")) is not None and told.status_code == 200)
    until(lambda: (found := service.folder.endpoint()) is not None and found.pid == standby.pid)
    (tmp_path / "go").touch()
    with service.client() as client:
        ended = client.wait(job.id, timeout=30)
    assert (ended.state, len(ended.attempts)) == ("succeeded", 1)


def test_a_standby_ends_on_sigterm(service: Service) -> None:
    service.start()
    standby, _ = beside(service)
    standby.terminate()
    assert standby.wait(30) == 0


def test_a_standby_needs_postgresql(tmp_path: Path) -> None:
    service = Service(tmp_path, "--RunaiService.standby=True")
    assert service.spawn().wait(30) == 1
    assert "A standby needs a PostgreSQL database; set db_url." in service.log.read_text()
