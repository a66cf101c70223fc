"""A search with Optuna: a real kernel, a real scheduler, real trials; also after the kernel's death."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.model import JobState
from tests.jupyter_ext.pool import Kernel, RunningPool, running_pool

pytestmark = pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="needs optuna (the extra `search`)")

SIX_GOOD_ONES = """
from jupyter_ext import job
import os, time
number = int(os.environ["RUNAI_JOB_NAME"].rsplit("-")[-1])
score = x * n
job.report(step=0, loss=score if number < 6 else 1000)
while number >= 6 and not job.should_stop():
    time.sleep(0.02)
"""

WAITS = """
import os, pathlib, time
from jupyter_ext import job
while not pathlib.Path(gate).exists():
    time.sleep(0.02)
job.report(step=0, loss=x)
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningPool]:
    with running_pool(tmp_path / "state", gpus=4) as pool:
        yield pool


def begin(pool: RunningPool) -> Kernel:
    folder = pool.state_dir.with_name("work")
    folder.mkdir(exist_ok=True)
    data = str(pool.state_dir.with_name("data"))
    kernel = Kernel(folder, {**pool.environment, "JUPYTER_DATA_DIR": data})
    kernel.run("%load_ext jupyter_ext\nfrom jupyter_ext import Search")
    return kernel


@pytest.fixture
def kernel(pool: RunningPool) -> Iterator[Kernel]:
    kernel = begin(pool)
    yield kernel
    kernel.close()


def test_trials_are_chosen_reported_and_pruned_and_the_best_result_is_available(
    kernel: Kernel, pool: RunningPool
) -> None:
    options = "--search optuna --trials 8 --at-once 2 --minimize loss --out score --gpus 0"
    shown = kernel.run(f'%%runai_train {options} --sweep "x=0.5..1.0;n=1..3;kind=a,b"\n{SIX_GOOD_ONES}', timeout=120)
    assert shown.error is None
    last = [*shown.displays, *shown.updates][-1]["text/plain"]
    assert "8 of 8 jobs ended. Best: cell-" in last
    assert last.count("pruned") == 2
    jobs = pool.client.jobs().jobs
    assert sorted(view.state for view in jobs) == [JobState.CANCELLED] * 2 + [JobState.SUCCEEDED] * 6
    for view in jobs:
        x, n, kind = (view.parameters[name] for name in ("x", "n", "kind"))
        assert isinstance(x, float)
        assert 0.5 <= x <= 1
        assert (n in (1, 2, 3), kind in ("a", "b")) == (True, True)
    scores = [v.parameters["x"] * v.parameters["n"] for v in jobs if v.state is JobState.SUCCEEDED]  # type: ignore[operator]
    assert kernel.value("_job.best.result()") == repr({"score": min(scores)})
    assert kernel.value("len(_job.results)") == "8"


def test_a_search_continues_after_a_kill_of_the_kernel(pool: RunningPool) -> None:
    gate = pool.state_dir.with_name("gate")
    kernel = begin(pool)
    kernel.run(f"gate = {str(gate)!r}")
    pid = int(kernel.pid)
    options = "--search optuna --trials 5 --at-once 2 --maximize loss --gpus 0 --sweep x=1..9"
    cell = kernel.send(f"%%runai_train {options}\n{WAITS}")
    kernel.collect(cell, until="Sending gate")
    for event in pool.client.events(0):
        if event.kind == "job.submitted" and len(pool.client.jobs().jobs) == 2:
            break
    os.kill(pid, signal.SIGKILL)
    kernel.close()
    gate.touch()
    for job in pool.client.jobs().jobs:
        assert pool.client.wait(job.id, timeout=60).state is JobState.SUCCEEDED
    assert len(pool.client.jobs().jobs) == 2
    (journal,) = pool.state_dir.with_name("data").rglob("*.journal")
    kernel = begin(pool)
    shown = kernel.run(f"search = Search({journal.stem!r}).wait()", timeout=120)
    assert shown.error is None
    assert "5 of 5 jobs ended" in [*shown.displays, *shown.updates][-1]["text/plain"]
    jobs = pool.client.jobs().jobs
    assert len(jobs) == 5
    best = max(view.parameters["x"] for view in jobs)
    assert kernel.value("search.best.seen.parameters['x']") == str(best)
    kernel.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--search optuna --minimize loss", "--search needs values to choose from"),
        ("--search optuna --sweep x=1..2", "--search needs a goal"),
        ("--sweep x=1..2", "--sweep: x is a range, which is for %runai_train --search optuna"),
        ("--search optuna --minimize loss --sweep x=2..1", "the end of a range must be above its start"),
        ("--search optuna --minimize loss --sweep x=0..1:log", "with :log its start above 0"),
        ("--search optuna --minimize loss --sweep x=1..2 --dry-run", "--dry-run cannot be combined with --search"),
        ("--search grid", "optuna"),
        ("--trials 3", "--trials belongs to --search"),
    ],
)
def test_an_invalid_search_is_refused_before_anything_is_sent(
    kernel: Kernel, pool: RunningPool, options: str, words: str
) -> None:
    shown = kernel.run(f"%runai_train {options} -- true")
    assert shown.stderr.startswith("UsageError: ")
    assert words in shown.stderr
    assert pool.client.jobs().jobs == []
