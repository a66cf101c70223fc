"""Real programs of Kubernetes, as processes that never outlive their test."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

PATIENCE = 90.0
Found = TypeVar("Found")
HERE = Path(__file__).parent


@functools.cache
def find(name: str) -> Path:
    """The program's path; without it the test is skipped."""
    found = subprocess.run([HERE / "binaries", "which", name], capture_output=True, text=True, check=True).stdout
    if not found:
        pytest.skip(f"needs {name}: run `make kubernetes` first")
    return Path(found.strip())


def eventually(what: str, found: Callable[[], Found], patience: float = PATIENCE) -> Found:
    """The result of `found` once it is true; fails with `what` after the time limit."""
    until = time.monotonic() + patience
    while not (answer := found()):
        assert time.monotonic() < until, f"after {patience:g} s still not: {what}"
        time.sleep(0.05)
    return answer


class Program:
    """One process with its log; it can be restarted after a stop or kill."""

    def __init__(
        self, name: str, arguments: Sequence[str | Path], folder: Path, *, wrapper: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.folder = folder
        # the kernel kills it when the test's process ends, also after a kill -9
        self.command = ["setpriv", "--pdeathsig", "KILL", "--", *wrapper, find(name), *arguments]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, "HOME": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until it is ready; fails with the end of its log if it ends instead."""

        def ready() -> bool:
            assert self.process is not None
            if self.process.poll() is None:
                return holds()
            raise AssertionError(f"{self.name} ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}")

        eventually(what, ready)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self, patience: float = 5.0) -> None:
        """Stop it with SIGTERM, and with SIGKILL after `patience` seconds."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.kill()


def needs_command(name: str) -> None:
    """Skip the test where the machine lacks a system command."""
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}, which this machine does not have")
