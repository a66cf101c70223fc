"""`from jupyter_ext import job`: the functions for code in a job, in separate processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def inside(tmp_path: Path) -> dict[str, str]:
    """The environment of a worker."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "output").mkdir()
    return {
        **os.environ,
        "RUNAI_JOB_ID": "j1",
        "RUNAI_ATTEMPT": "1",
        "RUNAI_RANK": "0",
        "RUNAI_WORLD_SIZE": "2",
        "RUNAI_CHECKPOINT_DIR": str(tmp_path / "checkpoint"),
        "RUNAI_OUTPUT_DIR": str(tmp_path / "output"),
    }


def run(code: str, environment: dict[str, str] | None = None, *options: str) -> subprocess.CompletedProcess[str]:
    outside = {k: v for k, v in os.environ.items() if not k.startswith("RUNAI_")}
    return subprocess.run(
        [sys.executable, *options, "-c", f"from jupyter_ext import job\n{code}"],
        env={**(environment or outside), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def said(code: str, environment: dict[str, str] | None = None) -> Any:
    done = run(f"import json\nprint(json.dumps({code}))", environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_needs_the_standard_library_alone() -> None:
    # -S excludes site-packages, -E the environment variables: only Python and this checkout remain.
    code = f"import sys; sys.path.append({str(ROOT)!r}); from jupyter_ext import job; job.report(loss=1); print(job.id)"
    done = subprocess.run([sys.executable, "-S", "-E", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


def test_outside_a_job_it_is_harmless(tmp_path: Path) -> None:
    state = "[job.id, job.resumed, job.attempt, job.rank, job.world_size, job.should_save(), job.should_stop()]"
    assert said(state) == [None, False, 1, 0, 1, False, False]
    assert said("[job.checkpoint({'a': 1}), job.restore('nothing'), job.report(step=1, loss=2)]") == [
        False,
        "nothing",
        None,
    ]


def test_a_job_knows_itself(inside: dict[str, str]) -> None:
    state = "[job.id, job.resumed, job.attempt, job.rank, job.world_size]"
    assert said(state, inside) == ["j1", False, 1, 0, 2]
    assert said(state, {**inside, "RUNAI_ATTEMPT": "3", "RUNAI_RANK": "1"}) == ["j1", True, 3, 1, 2]


def test_the_next_attempt_finds_the_checkpoint(inside: dict[str, str]) -> None:
    assert said("job.restore({'step': 0})", inside) == {"step": 0}
    assert said("job.checkpoint({'step': 7})", inside) is True
    assert said("job.checkpoint({'step': 9}, 'best')", inside) is True
    later = {**inside, "RUNAI_ATTEMPT": "2"}
    assert said("[job.restore(), job.restore(name='best')]", later) == [{"step": 7}, {"step": 9}]


def test_a_kill_during_a_write_leaves_the_previous_checkpoint(inside: dict[str, str]) -> None:
    assert said("job.checkpoint('whole')", inside) is True
    code = """
import os, signal
class Deadly:
    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGKILL)
job.checkpoint(['x' * 10**6, Deadly()])
"""
    assert run(code, inside).returncode == -signal.SIGKILL
    assert said("job.restore()", inside) == "whole"


def test_a_checkpoint_that_cannot_be_pickled_leaves_the_previous_one(
    inside: dict[str, str],
) -> None:
    assert said("job.checkpoint('whole')", inside) is True
    assert "cannot pickle" in run("job.checkpoint(iter(()).__class__ and (i for i in ()))", inside).stderr
    assert said("job.restore()", inside) == "whole"
    assert os.listdir(inside["RUNAI_CHECKPOINT_DIR"]) == ["checkpoint.pickle"]


def test_a_checkpoint_stays_in_its_folder(inside: dict[str, str]) -> None:
    done = run("job.checkpoint(1, '../elsewhere')", inside)
    assert "A checkpoint is named by letters, digits" in done.stderr


def test_what_is_reported_is_one_line_each(inside: dict[str, str]) -> None:
    code = """
class Scalar:
    def __float__(self): return 0.5
for step in range(3):
    job.report(step=step, loss=1 / (step + 1), lr=Scalar(), done=step == 2, note='ok', bad=float('nan'))
"""
    assert run(code, inside).returncode == 0
    lines = [json.loads(line) for line in (Path(inside["RUNAI_OUTPUT_DIR"]) / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2]
    last = lines[-1]
    assert (last["loss"], last["lr"], last["done"], last["note"], last["bad"]) == (
        1 / 3,
        0.5,
        True,
        "ok",
        None,
    )
    assert (last["attempt"], last["rank"]) == (1, 0)


def test_should_stop_reports_sigterm(inside: dict[str, str]) -> None:
    code = """
import os, signal
assert not job.should_stop()
os.kill(os.getpid(), signal.SIGTERM)
assert job.should_stop()
job.checkpoint('saved')
"""
    assert run(code, inside).returncode == 0
    assert said("job.restore()", inside) == "saved"


def test_should_save_is_true_once_for_each_request(inside: dict[str, str], tmp_path: Path) -> None:
    code = """
import os
request = os.environ['RUNAI_SAVE_REQUEST']
def ask(at):
    open(request, 'w').close()
    os.utime(request, (at, at))
found = [job.should_save()]
for at in (1000, 2000):
    ask(at)
    found += [job.should_save(), job.should_save()]
print(found, job.should_stop())
"""
    asked = {**inside, "RUNAI_SAVE_REQUEST": str(tmp_path / "save")}
    done = run(code, asked)
    assert done.stdout == "[False, True, False, True, False] False\n", done.stderr


def test_without_should_stop_sigterm_ends_the_worker(inside: dict[str, str]) -> None:
    done = run("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", inside)
    assert done.returncode == -signal.SIGTERM


def test_an_existing_signal_handler_is_called_too(inside: dict[str, str]) -> None:
    code = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: print('mine'))
job.should_stop()
os.kill(os.getpid(), signal.SIGTERM)
print(job.should_stop())
"""
    assert run(code, inside).stdout == "mine\nTrue\n"
