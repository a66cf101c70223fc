"""The scheduler dies or is not there while a notebook works with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import embedded
from scheduler.model import JobState
from tests.jupyter_ext.pool import Kernel, RunningPool, running_pool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningPool]:
    with running_pool(tmp_path / "state") as pool:
        yield pool


def kernel_beside(pool: RunningPool, folder: Path) -> Kernel:
    # The address is named, as a hub does it: nobody here starts another scheduler in the dead one's place.
    kernel = Kernel(folder, {"RUNAI_URL": pool.address.url, "RUNAI_TOKEN": pool.address.token})
    kernel.run("%load_ext jupyter_ext")
    return kernel


def test_a_scheduler_that_is_down_is_one_sentence_and_the_job_runs_on(
    pool: RunningPool, folder: Path
) -> None:
    kernel = kernel_beside(pool, folder)
    try:
        pool.kill()
        shown = kernel.run("%%runai_train\nprint(1)")
        assert shown.stderr.startswith("UsageError: The scheduler at http://127.0.0.1:")
        assert "does not answer" in shown.stderr
        assert shown.stderr.count("\n") == 1
        assert "Takes along" not in shown.stdout
    finally:
        kernel.close()
        pool.start()


def test_output_goes_on_where_it_was_when_the_scheduler_comes_back(pool: RunningPool, folder: Path) -> None:
    go = folder / "go"
    kernel = Kernel(folder, pool.environment)
    kernel.run("%load_ext jupyter_ext")
    try:
        message = kernel.send(
            "%%runai_train --out y --no-files\nimport os, time\nfor i in range(20): print('line', i)\n"
            f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
            "for i in range(20, 40): print('line', i)\ny = 'back'"
        )
        shown = kernel.collect(message, until="line 19\n")
        pool.kill()
        go.touch()
        pool.start()
        shown = kernel.collect(message, into=shown)
        assert shown.error is None, shown.error
        lines = [line for line in shown.stdout.splitlines() if line.startswith("line")]
        assert lines == [f"line {i}" for i in range(40)]
        assert kernel.value("y") == "'back'"
    finally:
        kernel.close()


def test_without_a_hub_a_scheduler_that_died_is_started_again(pool: RunningPool, folder: Path) -> None:
    kernel = Kernel(folder, pool.environment)
    kernel.run("%load_ext jupyter_ext")
    try:
        message = kernel.send(
            "%%runai_train --out y --no-files\nimport time\nprint('up')\ntime.sleep(1)\ny = 4"
        )
        shown = kernel.collect(message, until="up")
        pool.kill()
        shown = kernel.collect(message, into=shown)
        assert shown.error is None, shown.error
        assert kernel.value("y") == "4"
    finally:
        kernel.close()
        found = embedded.find(pool.state_dir)
        if found is not None:
            os.kill(found.pid, signal.SIGTERM)


def test_a_job_outlives_the_kernel_that_sent_it(pool: RunningPool, folder: Path) -> None:
    go = folder / "go"
    kernel = Kernel(folder, pool.environment)
    kernel.run("%load_ext jupyter_ext")
    message = kernel.send(
        "%%runai_train --out y --no-files\nimport os, time\nprint('up')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\ny = 3"
    )
    kernel.collect(message, until="up")
    kernel.close()
    [job] = pool.client.jobs().jobs
    assert job.state is JobState.RUNNING
    go.touch()
    assert pool.client.wait(job.id, timeout=30).state is JobState.SUCCEEDED
    kernel = Kernel(folder, pool.environment)
    try:
        kernel.run(f"from jupyter_ext import Job\njob = Job({job.id!r})")
        assert kernel.value("job.result()") == "{'y': 3}"
    finally:
        kernel.close()


def test_without_a_hub_the_first_cell_starts_a_scheduler(tmp_path: Path, folder: Path) -> None:
    state = tmp_path / "own"
    kernel = Kernel(folder, {"RUNAI_STATE_DIR": str(state)})
    try:
        kernel.run("%load_ext jupyter_ext")
        assert embedded.find(state) is None
        assert "from a job" in kernel.run("%%runai_train\nprint('from a job')").stdout
        assert embedded.find(state) is not None
    finally:
        kernel.close()
        found = embedded.find(state)
        if found is not None:
            os.kill(found.pid, signal.SIGTERM)
