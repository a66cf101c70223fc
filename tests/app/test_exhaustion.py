"""The machine has run out of a resource: the scheduler says so in a sentence, and continues once there is some."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from scheduler.client import Client
from scheduler.discovery.embedded import ensure
from scheduler.errors import Unavailable
from scheduler.model import JobState
from scheduler.schema import JobSubmit
from scheduler.service.threads import start_threads
from tests.app.conftest import on

if TYPE_CHECKING:
    from tests.app.conftest import Service

FULL = "The scheduler's disk is full; free some space on it."
READ_ONLY = "The scheduler's disk is read-only; mount it for writing."


# -- the disk -----------------------------------------------------------------------------------------------


class Disk:
    """A small file system for the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filling = folder / "filling"

    def fill(self) -> None:
        with self._filling.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            for size in (65536, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        self._filling.unlink()

    def remount(self, how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", self.folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("No file system may be mounted here, so there is no small disk to fill.")
    yield Disk(folder)
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def small(disk: Disk) -> Iterator[Service]:
    """A scheduler on the small disk, not started yet, with its log elsewhere."""
    with on(disk.folder) as service:
        service.log = disk.folder.parent / "service.log"
        yield service


def refused(client: Client, command: str) -> str:
    with pytest.raises(Unavailable) as refusal:
        client.submit(JobSubmit(command=[command], gpus=0))
    return refusal.value.sentence


def test_a_full_disk_is_reported_and_work_continues_when_there_is_space(small: Service, disk: Disk) -> None:
    url = small.start().url

    def ready() -> httpx.Response:
        """The answer, once an older one has expired."""
        return httpx.get(f"{url}readyz")

    with small.client() as client:
        go = disk.folder.parent / "go"
        wait = f"while ! test -e {go}; do sleep 0.05; done"
        running = client.submit(JobSubmit(command=["sh", "-c", wait], gpus=1)).id
        small.until(lambda: client.job(running).state == "running")
        disk.fill()
        for _ in range(3):
            assert refused(client, "true") == (
                "The change could not be written (database or disk is full); nothing was changed, try again."
            )
        content = os.urandom(3_000_000)
        token = {"Authorization": f"Bearer {small.folder.read_token()}"}
        put = httpx.put(f"{url}api/v1/blobs/{hashlib.sha256(content).hexdigest()}", content=content, headers=token)
        assert (put.status_code, put.json()["detail"]) == (503, FULL)
        small.until(lambda: ready().status_code == 503)
        assert "disk" in ready().json()["detail"]
        assert httpx.get(f"{url}healthz").status_code == 200
        go.touch()  # it ends while writes fail
        assert len(client.jobs().jobs) == 1
        disk.free()
        small.until(lambda: ready().status_code == 200)
        assert client.wait(running, 60).state == "succeeded"
        assert client.wait(client.submit(JobSubmit(command=["true"], gpus=0)).id, 60).state == "succeeded"
    assert "Traceback" not in small.log.read_text()


def test_a_start_on_a_full_disk_says_so(small: Service, disk: Disk) -> None:
    disk.fill()
    assert small.spawn().wait(30) == 1
    assert small.log.read_text().strip().endswith(f"The scheduler cannot start. {FULL}")
    disk.free()
    small.start()
    small.kill()
    disk.fill()
    small.log.write_text("")
    assert small.spawn().wait(30) == 1
    (said,) = small.log.read_text().strip().splitlines()
    assert "disk is full" in said
    with pytest.raises(Unavailable, match="disk is full"):
        ensure(small.folder.path)


def test_a_start_on_a_read_only_disk_says_so(small: Service, disk: Disk) -> None:
    small.start()
    small.stop()
    small.log.write_text("")
    disk.remount("ro")
    try:
        assert small.spawn().wait(30) == 1
    finally:
        disk.remount("rw")
    assert small.log.read_text().strip() == f"The scheduler cannot start. {READ_ONLY}"


# -- descriptors --------------------------------------------------------------------------------------------


def test_a_thousand_unfinished_requests_leave_room_for_others_and_the_log_short(service: Service) -> None:
    url = urlsplit(service.start(files=1024).url)
    with contextlib.ExitStack() as stack:
        for _ in range(1_000):
            line = stack.enter_context(socket.create_connection((url.hostname, url.port)))
            line.send(b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        with service.client() as client:
            assert client.wait(client.submit(JobSubmit(command=["true"], gpus=0)).id, 60).state == "succeeded"
    assert len(service.log.read_bytes()) < 20_000


def test_requests_are_not_logged(service: Service) -> None:
    url = urlsplit(service.start().url)
    for _ in range(100):
        with socket.create_connection((url.hostname, url.port)) as line:
            line.send(b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: token a-secret\x1d\r\n\r\n")
            assert line.makefile("rb").read().startswith(b"HTTP/1.1 400")
    log = service.log.read_text()
    assert "a-secret" not in log
    assert len(log) < 2_000


def test_without_descriptors_it_waits_logs_that_and_continues(service: Service) -> None:
    if sys.platform != "linux":
        pytest.skip("Another process's limits can only be changed on Linux.")
    url = urlsplit(service.start().url)
    assert service.process is not None
    process = psutil.Process(service.process.pid)
    limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    with service.client() as client:
        client.me()
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (process.num_fds(), limits[1]))
        with contextlib.ExitStack() as stack:
            for _ in range(50):
                line = stack.enter_context(socket.create_connection((url.hostname, url.port)))
                line.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            service.until(lambda: "No connection can be taken (Too many open files)" in service.log.read_text())
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
            assert line.makefile("rb").read().endswith(b"ok\n")
        assert client.me().admin
    log = service.log.read_text()
    assert "Traceback" not in log
    assert log.count("No connection can be taken") <= 20


def test_jobs_may_open_as_many_files_as_the_scheduler_was_started_with(service: Service) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    service.start()
    assert service.process is not None
    with service.client() as client:
        job = client.submit(JobSubmit(command=["sh", "-c", "ulimit -Sn; ulimit -Hn"], gpus=0)).id
        assert client.wait(job, 60).state == "succeeded"
        assert client.log(job).split() == [str(soft).encode(), str(hard).encode()]
    if sys.platform == "linux":
        assert resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


# -- threads and memory -------------------------------------------------------------------------------------


@contextlib.contextmanager
def without_memory(service: Service, left: int) -> Iterator[None]:
    """Limit the service's address space, in bytes."""
    if sys.platform != "linux":
        pytest.skip("Another process's limits can only be changed on Linux.")
    assert service.process is not None
    process = psutil.Process(service.process.pid)
    limits = resource.prlimit(process.pid, resource.RLIMIT_AS)
    resource.prlimit(process.pid, resource.RLIMIT_AS, (process.memory_info().vms + left, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_AS, limits)


def test_no_work_needs_more_threads_than_were_started(service: Service) -> None:
    service.start()
    assert service.process is not None
    process = psutil.Process(service.process.pid)
    threads = process.num_threads()
    with service.client() as client, ThreadPoolExecutor(20) as pool:
        ids = pool.map(lambda _: client.submit(JobSubmit(command=["true"], gpus=0)).id, range(20))
        assert {client.wait(id, 60).state for id in ids} == {"succeeded"}
        pages = pool.map(lambda _: client.jobs(state=[JobState.SUCCEEDED]).jobs, range(100))  # read in threads
        assert {len(page) for page in pages} == {20}
    assert process.num_threads() == threads


def test_without_threads_for_its_start_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def begin(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", begin)
    with pytest.raises(Unavailable, match="has no threads left"):
        start_threads()
    monkeypatch.undo()
    for thread in started:
        thread.join(30)
        assert not thread.is_alive()


def test_without_memory_it_reports_that_and_continues(service: Service) -> None:
    url = service.start().url
    content = os.urandom(3_000_000)
    address = f"{url}api/v1/blobs/{hashlib.sha256(content).hexdigest()}"
    token = {"Authorization": f"Bearer {service.folder.read_token()}"}

    def refused() -> str | None:
        try:
            answer = httpx.put(address, content=content, headers=token)
        except httpx.TransportError:  # no memory for a connection either
            return None
        return answer.json()["detail"] if answer.status_code == 503 else None

    with without_memory(service, left=0):
        assert service.until(refused) == "The scheduler's machine has no memory left; try again in a moment."
    assert httpx.put(address, content=content, headers=token).is_success
    with service.client() as client:
        assert client.wait(client.submit(JobSubmit(command=["true"], gpus=0)).id, 60).state == "succeeded"
    assert "Traceback" not in service.log.read_text()
