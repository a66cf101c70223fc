"""A real scheduler in a separate process, with the test's state folder, and the command line to use it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar
from unittest.mock import patch

import psutil
import pytest

from scheduler.cli import main
from scheduler.client import Client
from scheduler.discovery.statefolder import Endpoint, StateFolder

T = TypeVar("T")

PATIENCE = 30.0
"""The time limit of expected events, in seconds."""


def until(look: Callable[[], T | None]) -> T:
    """Poll until there is a result."""
    end = time.monotonic() + PATIENCE
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


class Done(NamedTuple):
    """A finished command."""

    returncode: int
    stdout: str
    stderr: str


class Captured(io.TextIOWrapper):
    """A captured standard stream, with its bytes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        kept = self.buffer
        assert isinstance(kept, io.BytesIO)
        return kept.getvalue().decode()


class Service:
    """`jupyter runai serve` on one state folder: started, killed and restarted."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = StateFolder(folder / "state")
        self.work = folder / "work"
        self.work.mkdir()
        self.options = options
        self.module = "scheduler.service.app"
        self.log = folder / "service.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.spawned: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        ours = ("RUNAI_", "JUPYTERHUB_", "JPY_", "COV_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {
            **kept,
            "RUNAI_STATE_DIR": str(self.folder.path),
            "JUPYTER_CONFIG_DIR": str(self.work / ".jupyter"),
        }

    def spawn(self, *options: str, files: int | None = None) -> subprocess.Popen[bytes]:
        """Start it; `files` limits its open files."""
        command = [sys.executable, "-m", self.module, *self.options, *options]
        limit = [] if files is None else ["sh", "-c", f'ulimit -n {files}; exec "$0" "$@"']
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*limit, *command],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.spawned.append(process)
        return process

    def start(self, *options: str, files: int | None = None) -> Endpoint:
        """Start it and wait until it is ready."""
        self.process = process = self.spawn(*options, files=files)

        def ready() -> Endpoint | None:
            assert process.poll() is None, self.log.read_text()
            endpoint = self.folder.endpoint()
            return endpoint if endpoint is not None and endpoint.pid == process.pid else None

        return until(ready)

    until = staticmethod(until)

    def kill(self) -> None:
        """`kill -9`."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def client(self, notebook: str = "") -> Client:
        endpoint, token = self.folder.endpoint(), self.folder.read_token()
        assert endpoint is not None
        assert token is not None
        return Client(endpoint.url, token, notebook=notebook)

    def cli(self, *words: str, check: bool = True) -> Done:
        """Run `jupyter runai …` in the working folder (in this process, to save the start of a Python)."""
        out, err = Captured(), Captured()
        with (
            patch.dict(os.environ, self.environment, clear=True),
            chdir(self.work),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                status = main(words)
            except SystemExit as ended:
                status = int(ended.code or 0)
        done = Done(status, out.text, err.text)
        assert not check or status == 0, f"{words}: {done}\n{self.log.read_text()}"
        return done


def end_all(folder: Path) -> None:
    """Kill all processes that run in a folder or were started for it."""
    for process in psutil.process_iter():
        try:
            mine = f"{folder}/" in " ".join(process.cmdline()) or any(
                f"{folder}/" in value for value in process.environ().values()
            )
        except psutil.Error:
            continue
        if mine and process.pid != os.getpid() and process.pid not in {p.pid for p in psutil.Process().parents()}:
            with suppress(psutil.NoSuchProcess):  # it may have ended just now
                process.kill()


@contextmanager
def on(folder: Path) -> Iterator[Service]:
    found = Service(folder, "--declared-gpus=4")
    yield found
    end_all(folder)
    for process in found.spawned:
        process.wait()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A scheduler with 4 declared GPUs (1 to build on, 3 to train on), not started yet."""
    with on(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The same scheduler, started, for tests that leave nothing behind."""
    with on(tmp_path_factory.mktemp("shared")) as found:
        found.start()
        yield found
