"""Tab completion, in the protocol of argcomplete: variables set by bash, and the answer in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.submission import jobfile
from tests.jupyter_ext.pool import running_pool


def offered(line: str, folder: Path, **environment: str) -> set[str]:
    answer = folder / "answer"
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    done = subprocess.run(
        [Path(sys.executable).with_name(line.split()[0])],
        env={**os.environ, **asked, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("", "")
    return {word.strip() for word in answer.read_text().splitlines()}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("jupyter-runai su", {"submit"}),
        ("jupyter-runai submit --gpu", {"--gpus", "--gpu-memory", "--gpu-type"}),
        ("jupyter-runai submit --at", set()),
        ("jupyter-runai submit --framework t", {"torch", "tensorflow"}),
        ("jupyter-runai submit --template ha", {"half"}),
        ("jupyter-runai submit --gpus 1 tra", {"train.py"}),
        ("jupyter-runai submit --project ", set()),
        ("jupyter runai submit --fra", {"--framework"}),
    ],
)
def test_tab_offers_commands_options_and_values(
    line: str, words: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    jobfile.save_template("half", {"gpus": 0.5})
    (tmp_path / "train.py").touch()
    assert offered(line, tmp_path, RUNAI_STATE_DIR=str(tmp_path / "none")) == words
    assert not (tmp_path / "none").exists()


def test_tab_asks_a_scheduler_that_runs(tmp_path: Path) -> None:
    with running_pool(tmp_path / "state") as pool:
        assert offered("jupyter-runai submit --project ", tmp_path, **pool.environment) == {"default"}
        assert offered("jupyter-runai submit --node-pool other,", tmp_path, **pool.environment) == {"other,train"}
