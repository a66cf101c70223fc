"""What jobs look like where no page shows them: in a notebook that a program runs, and in a plain Python program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from jupyter_ext.card import MIME
from tests.jupyter_ext.pool import RunningPool

TRAINS = """%%runai_train --name waited
from jupyter_ext import job
for step in range(1, 4): job.report(step=step, total=3, loss=1 / step)
print("the last line")
"""


def test_a_notebook_that_a_program_runs_keeps_the_results_without_widgets(
    pool: RunningPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in pool.environment.items():
        monkeypatch.setenv(name, value)
    sources = ["%load_ext jupyter_ext", TRAINS, "%runai_train --detach --name left -- sleep 600", "_ = _job.cancel()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute()
    waited, left = ([output["data"] for output in cell.outputs if "data" in output][-1] for cell in notebook.cells[1:3])
    assert list(waited) == list(left) == [MIME, "text/html", "text/plain"]
    assert "succeeded" in waited["text/html"]
    assert "loss <b>0.3333</b>" in waited["text/html"]
    assert "left" in left["text/plain"]
    assert "widgets" not in notebook.metadata
    assert any("the last line" in output.get("text", "") for output in notebook.cells[1].outputs)


def test_a_plain_program_prints_each_state_and_the_output(pool: RunningPool, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from jupyter_ext import Job\n"
        "from jupyter_ext.connection import connect\n"
        "from scheduler.schema import JobSubmit\n"
        "Job(connect().submit(JobSubmit(name='plain', command=['echo', 'hello']))).wait()\n"
    )
    done = subprocess.run(
        [sys.executable, program], env={**os.environ, **pool.environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "hello" in lines
    assert lines[0].startswith("plain (")
    assert "succeeded" in [line for line in lines if line.startswith("plain (")][-1]
