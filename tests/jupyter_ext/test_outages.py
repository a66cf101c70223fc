"""The scheduler dies or is down while a notebook uses it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.discovery import embedded
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
    # The address is set, as by a hub: no other scheduler is started in place of the dead one.
    kernel = Kernel(folder, {"RUNAI_URL": pool.address.url, "RUNAI_TOKEN": pool.address.token})
    kernel.run("%load_ext jupyter_ext")
    return kernel


def test_an_unreachable_scheduler_is_one_sentence_and_the_job_keeps_running(pool: RunningPool, folder: Path) -> None:
    kernel = kernel_beside(pool, folder)
    try:
        pool.kill()
        shown = kernel.run("%%runai_train\nprint(1)")
        assert shown.stderr.startswith("UsageError: The scheduler at http://127.0.0.1:")
        assert "does not answer" in shown.stderr
        assert shown.stderr.count("\n") == 1
        assert "Sending" not in shown.stdout
    finally:
        kernel.close()
        pool.start()


def test_output_resumes_when_the_scheduler_is_back(pool: RunningPool, folder: Path) -> None:
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
        message = kernel.send("%%runai_train --out y --no-files\nimport time\nprint('up')\ntime.sleep(1)\ny = 4")
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


# -- what kill -9 does to a job, and what its owner sees of it --------------------------------------------------

DEADLY = """%%runai_train --no-files --out steps {options}
import os, signal
from jupyter_ext import job
class Deadly:
    def __reduce__(self): os.kill(os.getpid(), signal.SIGKILL)
steps = job.restore(default=[])
print("begins with", steps, flush=True)
steps.append(job.attempt)
job.checkpoint(steps)
if job.attempt == 1:
    job.checkpoint(["x" * 10**6, Deadly()])
print("ends with", steps)
"""


@pytest.fixture
def kernel(pool: RunningPool, folder: Path) -> Iterator[Kernel]:
    kernel = Kernel(folder, pool.environment)
    kernel.run("%load_ext jupyter_ext")
    yield kernel
    kernel.close()


def test_a_worker_killed_while_saving_resumes_from_the_previous_checkpoint(kernel: Kernel, pool: RunningPool) -> None:
    shown = kernel.run(DEADLY.format(options="--retries 1"))
    assert shown.error is None, shown.error
    told = [line for line in shown.stdout.splitlines() if line.startswith(("begins", "ends"))]
    assert told == ["begins with []", "begins with [1]", "ends with [1, 2]"]
    assert kernel.value("steps") == "[1, 2]"
    assert "\n--- attempt 2 ---\n" in shown.stdout
    first, second = (attempt.reason for attempt in pool.client.jobs().jobs[0].attempts)
    assert first == "It was killed by SIGKILL; perhaps the machine ran out of memory."
    assert second == "Succeeded."


def test_a_killed_worker_without_retries_fails_with_the_reason(kernel: Kernel) -> None:
    shown = kernel.run(DEADLY.format(options=""))
    assert shown.error is not None
    assert "was killed by SIGKILL" in shown.error
    assert shown.states[-1].endswith("It was killed by SIGKILL; perhaps the machine ran out of memory.")
    assert "begins with []" in shown.stdout


def test_a_killed_supervisor_costs_only_an_attempt(kernel: Kernel, pool: RunningPool, folder: Path) -> None:
    go = folder / "go"
    message = kernel.send(
        "%%runai_train --no-files --out y\nimport os, time\nfrom jupyter_ext import job\n"
        "print('attempt', job.attempt, flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\ny = job.attempt"
    )
    shown = kernel.collect(message, until="attempt 1\n")
    [job] = pool.client.jobs().jobs
    place = pool.state_dir / "jobs" / job.id / "attempts" / "1" / "0"
    os.kill(int((place / "claim").read_text().split()[0]), signal.SIGKILL)
    shown = kernel.collect(message, until="attempt 2\n", into=shown)
    go.touch()
    shown = kernel.collect(message, into=shown)
    assert shown.error is None, shown.error
    assert kernel.value("y") == "2"
    lost, last = pool.client.job(job.id).attempts
    assert lost.reason == "Its supervisor was killed together with it."
    assert last.reason == "Succeeded."
    assert "\n--- attempt 2 ---\n" in shown.stdout
