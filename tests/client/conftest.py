"""A scheduler in a separate process, as started by `jupyter runai serve`, which tests may kill and restart."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scheduler.client import Client
from scheduler.discovery.statefolder import StateFolder


class Scheduler:
    """`start`, `kill` (as in a power failure) and `stop` it; its state folder and its address stay the same."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def token(self) -> str:
        return StateFolder(self.state_dir).read_token() or ""

    def client(self) -> Client:
        return Client(self.url, self.token)

    def start(self) -> None:
        log = (self.state_dir.parent / "scheduler.log").open("ab")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RUNAI_")}
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "scheduler.service.app",
                f"--state-dir={self.state_dir}",
                f"--port={self.port}",
                "--auth=token",
            ],
            stdout=log,
            stderr=log,
            env=environment,
        )
        log.close()
        deadline = time.monotonic() + 30
        while True:
            try:
                if httpx.get(f"{self.url}readyz", trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self._process.poll() is None, (self.state_dir.parent / "scheduler.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(20)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    found = Scheduler(tmp_path / "state")
    found.state_dir.mkdir(mode=0o700)
    found.start()
    try:
        yield found
        with found.client() as client:
            page = client.jobs(limit=500)
            for job in page.jobs:
                if not job.state.final:
                    client.cancel(job.id)
            for job in page.jobs:
                client.wait(job.id, timeout=30)
    finally:
        found.stop()
