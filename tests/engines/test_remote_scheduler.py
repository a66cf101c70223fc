"""The scheduler is killed repeatedly while its workers run elsewhere: nothing is lost or repeated."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.engines.backends import RemoteBackendSetup
from tests.engines.remote_scheduler import TOKEN
from tests.engines.workplace import PATIENCE

ROOT = Path(__file__).parents[2]

COUNTS = """
n=0
while [ $n -lt 60 ]; do
  n=$((n + 1)); echo $n; echo $n >> "$RUNAI_OUTPUT_DIR/metrics.jsonl"; sleep 0.05
done
echo done > "$RUNAI_OUTPUT_DIR/result"
"""


@pytest.fixture
def setup(tmp_path: Path) -> RemoteBackendSetup:
    (tmp_path / "state").mkdir(mode=0o700)
    return RemoteBackendSetup(tmp_path / "state")


def start(setup: RemoteBackendSetup) -> subprocess.Popen[str]:
    """Start a scheduler and wait until it responds."""
    arguments = (str(setup.folder), str(setup.containers.folder), str(setup.port))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engines.remote_scheduler", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(scheduler: subprocess.Popen[str]) -> None:
    scheduler.kill()
    scheduler.wait()
    assert scheduler.stdout is not None
    scheduler.stdout.close()


def test_kill_9_of_the_scheduler_during_a_job_loses_nothing_and_repeats_nothing(setup: RemoteBackendSetup) -> None:
    scheduler = start(setup)
    url = f"http://127.0.0.1:{setup.port}/api/v1/"
    try:
        with httpx.Client(base_url=url, headers={"Authorization": f"token {TOKEN}"}, timeout=30) as http:
            sent = http.post("jobs", json={"command": ["sh", "-c", COUNTS], "workers": 2})
            assert sent.status_code == 201, sent.text
            job = sent.json()["id"]
            for number in ("5", "20", "40"):
                _until(lambda number=number: number in _log(http, job).split())  # type: ignore[misc]
                kill(scheduler)
                scheduler = start(setup)
            _until(lambda: http.get(f"jobs/{job}").json()["state"] == "succeeded")
            numbers = [str(number) for number in range(1, 61)]
            assert [_log(http, job, rank).split() for rank in (0, 1)] == [numbers, numbers]
            reports = http.get(f"jobs/{job}/outputs/metrics.jsonl").text.split()
            assert sorted(reports, key=int) == sorted([*numbers, *numbers], key=int)
            assert http.get(f"jobs/{job}/outputs/result").text == "done\n"
            assert len(http.get(f"jobs/{job}").json()["attempts"]) == 1
    finally:
        kill(scheduler)
        setup.containers.clear()


def _log(http: httpx.Client, job: str, rank: int = 0) -> str:
    return http.get(f"jobs/{job}/logs", params={"rank": rank}).text


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
