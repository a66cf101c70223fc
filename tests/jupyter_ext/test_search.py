"""A search with Optuna: a real kernel, a real scheduler, a real driver and real trials; also without the kernel."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.model import JobState
from scheduler.schema import JobView
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
    jobs = trials(pool)
    assert sorted(view.state for view in jobs) == [JobState.CANCELLED] * 2 + [JobState.SUCCEEDED] * 6
    for view in jobs:
        x, n, kind = (view.parameters[name] for name in ("x", "n", "kind"))
        assert isinstance(x, float)
        assert 0.5 <= x <= 1
        assert (n in (1, 2, 3), kind in ("a", "b")) == (True, True)
    scores = [v.parameters["x"] * v.parameters["n"] for v in jobs if v.state is JobState.SUCCEEDED]  # type: ignore[operator]
    assert kernel.value("_job.best.result()") == repr({"score": min(scores)})
    assert kernel.value("len(_job.results)") == "8"


def begun(pool: RunningPool, kernel: Kernel, options: str) -> tuple[Path, JobView]:
    """A search of trials that wait for a file: that file, and the driver, when two trials have been submitted."""
    gate = pool.state_dir.with_name("gate")
    kernel.run(f"gate = {str(gate)!r}")
    assert kernel.run(f"%%runai_train {options} --detach\n{WAITS}").error is None
    for event in pool.client.events(0):
        if event.kind == "job.submitted" and len(trials(pool)) == 2:
            break
    (driver,) = (view for view in pool.client.jobs().jobs if not view.parameters)
    return gate, driver


def trials(pool: RunningPool) -> list[JobView]:
    return [view for view in pool.client.jobs().jobs if view.parameters]


def test_a_search_goes_on_without_a_kernel(pool: RunningPool) -> None:
    kernel = begin(pool)
    gate, driver = begun(pool, kernel, "--search optuna --trials 5 --at-once 2 --maximize loss --gpus 0 --sweep x=1..9")
    os.kill(int(kernel.pid), signal.SIGKILL)
    kernel.close()
    gate.touch()
    assert pool.client.wait(driver.id, timeout=120).state is JobState.SUCCEEDED
    assert [view.state for view in trials(pool)] == [JobState.SUCCEEDED] * 5
    kernel = begin(pool)
    shown = kernel.run(f"search = Search({driver.name!r}).wait()")
    assert shown.error is None
    assert "5 of 5 jobs ended" in [*shown.displays, *shown.updates][-1]["text/plain"]
    best = max(view.parameters["x"] for view in trials(pool))
    assert kernel.value("search.best.seen.parameters['x']") == str(best)
    kernel.close()


def test_a_driver_that_starts_again_without_its_journal_submits_no_trial_twice(
    kernel: Kernel, pool: RunningPool
) -> None:
    gate, driver = begun(
        pool, kernel, "--search optuna --trials 4 --at-once 2 --minimize loss --gpus 0 --sweep x=0.0..1.0"
    )
    pool.client.pause(driver.id)
    for event in pool.client.events(0, subject=driver.id):
        if event.job is not None and event.job.state is JobState.PAUSED:
            break
    (journal,) = pool.state_dir.rglob("search.journal")
    journal.unlink()
    pool.client.resume(driver.id)
    gate.touch()
    assert pool.client.wait(driver.id, timeout=120).state is JobState.SUCCEEDED
    names = sorted(view.name for view in trials(pool))
    assert (len(names), len(set(names))) == (4, 4)
    assert kernel.value(f"len(Search({driver.id!r}).results)") == "4"


def test_a_search_that_is_cancelled_starts_no_more_trials(kernel: Kernel, pool: RunningPool) -> None:
    _, driver = begun(pool, kernel, "--search optuna --trials 9 --at-once 2 --minimize loss --gpus 0 --sweep x=1..9")
    kernel.run("_job.cancel()")
    assert pool.client.job(driver.id).state is JobState.CANCELLED
    assert [pool.client.wait(view.id).state for view in trials(pool)] == [JobState.CANCELLED] * 2


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
