"""The environment with the real frameworks, a pool to run them, and the unmodified scripts of the how-to page."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scheduler.client.uploading import upload
from scheduler.files.bundle import Listing, pack
from scheduler.model import Framework, JobKind
from scheduler.schema import JobSubmit, JobView
from tests.jupyter_ext.pool import RunningPool, running_pool

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "train-on-several-gpus.md"
PATIENCE = 120.0


def frameworks_python() -> str:
    """The frameworks' own interpreter; skips where it is missing."""
    found = subprocess.run([ROOT / "deploy" / "frameworks", "path"], capture_output=True, text=True, check=True)
    folder = Path(found.stdout.strip())
    if not (folder / "whole").exists():
        pytest.skip("needs the frameworks: run `make frameworks` first")
    return str(folder / "bin" / "python")


def scripts_of_the_page() -> dict[str, bytes]:
    """The scripts on the page, by the name in their first line."""
    blocks = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return {name: text.encode() for name, text in blocks}


@pytest.fixture(scope="session")
def python() -> str:
    return frameworks_python()


@pytest.fixture(scope="session")
def scripts() -> dict[str, bytes]:
    return scripts_of_the_page()


@pytest.fixture(scope="package")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPool]:
    with running_pool(tmp_path_factory.mktemp("pool") / "state", gpus=4) as pool:
        yield pool


@dataclass
class Sender:
    """Submits jobs as the command line does, with the frameworks' environment."""

    pool: RunningPool
    python: str
    scripts: dict[str, bytes]

    def send(self, framework: Framework, *command: str, workers: int = 2, gpus: float = 1, retries: int = 0,
             env: dict[str, str] | None = None, project: str | None = None, least: int | None = None,
             **more: bytes) -> str:  # fmt: skip
        """Queue a job; returns its id. `more` are files beside the page's scripts, `NAME` for `NAME.py`."""
        files = {**self.scripts, **{f"{name}.py": text for name, text in more.items()}}
        bundle = pack(Listing(Path("/"), ()), files)
        uploaded = upload(self.pool.client, bundle)
        path = f"{Path(self.python).parent}:/usr/bin:/bin"
        sent = JobSubmit(
            kind=JobKind.COMMAND, command=list(command), framework=framework, workers=workers,
            gpus=gpus, retries=retries, env={"PATH": path, **(env or {})}, project=project, min_workers=least,
            **uploaded.fields,
        )  # fmt: skip
        return self.pool.client.submit(sent).id

    def ended(self, job: str) -> JobView:
        return self.pool.client.wait(job, PATIENCE)

    def log(self, job: str, rank: int = 0, attempt: int | None = None) -> str:
        return self.pool.client.log(job, rank=rank, attempt=attempt).decode(errors="replace")

    def logs(self, job: str) -> list[str]:
        """The workers' logs; fails unless the job has succeeded."""
        ended = self.ended(job)
        logs = [self.log(job, rank) for rank in range(ended.workers)]
        assert ended.state == "succeeded", "\n".join([ended.reason, *logs])
        return logs


@pytest.fixture
def sender(pool: RunningPool, python: str, scripts: dict[str, bytes]) -> Sender:
    return Sender(pool, python, scripts)


def eventually(holds: Callable[[], bool]) -> None:
    """Poll for a condition in another process."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
