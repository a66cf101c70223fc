"""A whole notebook as a job: its parameters, its output notebook during the run, and its end."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_ext.card import MIME
from scheduler.errors import Invalid
from scheduler.model import JobState, Parameter
from scheduler.submission import notebooks
from tests.jupyter_ext.pool import Kernel, RunningPool
from tests.jupyter_ext.test_magic import _until


def cell(source: str, *tags: str) -> Any:
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)} if tags else {})


def write(folder: Path, *cells: Any, name: str = "train.ipynb") -> None:
    notebook = nbformat.v4.new_notebook(cells=list(cells))
    nbformat.write(notebook, folder / name)


def back(kernel: Kernel, name: str = "train.out.ipynb") -> Any:
    kernel.run(f"_job.download({name!r}, 'back.ipynb')")
    return nbformat.read(kernel.folder / "back.ipynb", as_version=4)


def text(cell: Any) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def test_a_notebook_runs_with_its_parameters_and_comes_back_with_its_outputs(kernel: Kernel) -> None:
    write(
        kernel.folder,
        nbformat.v4.new_markdown_cell("# Training"),
        cell("lr = 1.0\nname = 'default'", "parameters"),
        cell("print(lr * 2, name)"),
        cell("from IPython.display import HTML\nHTML('<b>done</b>')"),
    )
    shown = kernel.run("%runai_train train.ipynb -p lr=0.25 -p name=first")
    assert shown.error is None, shown.error
    sending, *printed = shown.stdout.splitlines()
    assert sending.startswith("Sending 1 file of this folder (")
    # The cell that assigns the given parameters is not part of the notebook.
    assert printed == [
        *(f"--- cell {n} of 3 ---" for n in (1, 2)),
        "0.5 first",
        "--- cell 3 of 3 ---",
    ]
    assert "0.5 first\n" in shown.stdout
    assert [data["text/html"] for data in shown.displays if MIME not in data] == ["<b>done</b>"]
    notebook = back(kernel)
    assert [each.cell_type for each in notebook.cells] == ["markdown", "code", "code", "code", "code"]
    assert notebook.cells[2].metadata.tags == ["injected-parameters"]
    assert text(notebook.cells[3]) == "0.5 first\n"
    assert notebook.cells[4].outputs[0].data["text/html"] == "<b>done</b>"
    assert kernel.value("_job.view.kind.value, _job.name") == "('notebook', 'train')"
    assert kernel.value("_job.metrics[['cell', 'cells']].iloc[-1].tolist()") == "[3, 3]"


def test_a_runai_train_cell_runs_in_the_notebooks_job(kernel: Kernel) -> None:
    asks = "%%runai_train --gpus 1 --out twice\ntwice = 2 * x\nprint(twice)"
    write(kernel.folder, cell("x = 21"), cell(asks), cell("print(twice + 1)"))
    shown = kernel.run("%runai_train train.ipynb")
    assert shown.error is None, shown.error
    assert "Runs in this job: the notebook is already a job.\n42\n" in shown.stdout
    notebook = back(kernel)
    assert notebook.cells[1].source == asks
    assert [text(each) for each in notebook.cells] == ["", "42\n", "43\n"]


def test_its_output_can_be_read_while_it_runs(kernel: Kernel, pool: RunningPool, tmp_path: Path) -> None:
    go = tmp_path / "go"
    write(
        kernel.folder,
        cell("print('first')"),
        cell(f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)"),
    )
    kernel.run("%runai_train train.ipynb --detach")
    job = kernel.value("_job.id").strip("'")
    _until(lambda: b"cell 2 of 2" in pool.client.log(job))
    notebook = back(kernel)
    assert text(notebook.cells[0]) == "first\n"
    assert notebook.cells[1].execution_count is None
    go.touch()
    assert pool.client.wait(job, timeout=30).state is JobState.SUCCEEDED


def test_an_error_names_its_cell_and_the_outputs_are_kept(kernel: Kernel, pool: RunningPool) -> None:
    write(kernel.folder, cell("print('before')"), cell("x = 0\n1 / x"), cell("print('never')"))
    shown = kernel.run("%runai_train train.ipynb")
    assert "Cell 2 of 3 failed: ZeroDivisionError: division by zero" in shown.stdout
    assert "1 / x" in re.sub(r"\x1b\[[0-9;]*m", "", shown.stdout)
    assert "never" not in shown.stdout
    assert shown.error is not None
    notebook = back(kernel)
    assert [output.output_type for output in notebook.cells[1].outputs] == ["error"]
    assert notebook.cells[2].outputs == []


def test_a_notebook_with_checkpoints_resumes(kernel: Kernel, pool: RunningPool, tmp_path: Path) -> None:
    go = tmp_path / "go"
    write(
        kernel.folder,
        cell(
            f"""import os, time
from jupyter_ext import job
steps = job.restore(default=0)
print("begins at", steps)
while not job.should_stop() and not os.path.exists({str(go)!r}):
    steps = min(steps + 1, 3 * job.attempt)
    time.sleep(0.02)
    if steps == 3: print("three", flush=True)
job.checkpoint(steps)"""
        ),
        cell("print('ends at', steps)"),
    )
    kernel.run("%runai_train train.ipynb --detach")
    job = kernel.value("_job.id").strip("'")
    _until(lambda: b"three" in pool.client.log(job))
    kernel.run("_job.pause()")
    _until(lambda: pool.client.job(job).state is JobState.PAUSED)
    assert b"ends at" not in pool.client.log(job)  # no cell is begun after the stop
    kernel.run("_job.resume()")
    _until(lambda: b"begins at 3" in pool.client.log(job))
    go.touch()
    assert pool.client.wait(job, timeout=30).state is JobState.SUCCEEDED
    assert "ends at" in text(back(kernel).cells[1])


def test_a_dead_kernel_is_reported(kernel: Kernel) -> None:
    write(kernel.folder, cell("import os\nos.kill(os.getpid(), 9)"))
    shown = kernel.run("%runai_train train.ipynb")
    assert "The kernel died; perhaps the machine ran out of memory." in shown.stdout
    assert shown.error is not None


def test_a_sweep_gives_a_notebook_its_values(kernel: Kernel, pool: RunningPool) -> None:
    write(kernel.folder, cell("lr = 0", "parameters"), cell("print('lr', lr)"))
    kernel.run("%runai_train train.ipynb --sweep 'lr=1,2' --detach")
    ids = json.loads(kernel.value("[job.id for job in _job]").replace("'", '"'))
    assert [pool.client.wait(job, timeout=60).state for job in ids] == [JobState.SUCCEEDED] * 2
    assert sorted(pool.client.log(job).split(b"lr ")[1][:1] for job in ids) == [b"1", b"2"]


REFUSED = {
    "%runai_train train.ipynb -p lx=1": "train.ipynb has no parameter 'lx'; it has lr.",
    "%runai_train train.ipynb -p lr": "'lr' is not of the form NAME=VALUE",
    "%runai_train train.ipynb -p 1a=2": "'1a' can't be the name of a variable",
    "%runai_train train.ipynb -- --lr 1": "A notebook takes parameters: %runai_train train.ipynb -p NAME=VALUE.",
    "%runai_train train.py -p lr=1": "-p is for notebooks",
    "%runai_train other.ipynb": "There is no file other.ipynb",
    "%runai_train broken.ipynb": "broken.ipynb is not a notebook of format 4",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_refused_is_one_sentence(line: str, kernel: Kernel) -> None:
    write(kernel.folder, cell("lr = 1", "parameters"))
    (kernel.folder / "broken.ipynb").write_text("{")
    (kernel.folder / "train.py").write_text("")
    shown = kernel.run(line)
    assert shown.stderr.startswith("UsageError: ")
    assert REFUSED[line] in shown.stderr
    assert shown.displays == []


# -- parameters, by papermill's convention ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ([[], []], ["+", "0", "1"]),
        ([[], ["parameters"], []], ["0", "1", "+", "2"]),
        ([["parameters"], ["injected-parameters"], []], ["0", "+", "2"]),
    ],
)
def test_what_is_given_is_assigned_after_the_tagged_cell(tags: list[list[str]], expected: list[str]) -> None:
    cells = [{"cell_type": "code", "source": str(at), "metadata": {"tags": given}} for at, given in enumerate(tags)]
    notebooks.inject(cells, {"lr": 1}, {"cell_type": "code", "source": "+", "metadata": {}})
    assert [each["source"] for each in cells] == expected


def test_values_keep_their_types() -> None:
    given: dict[str, Parameter] = {"lr": 1e-3, "n": 3, "deep": True, "name": 'a "b"'}
    found: dict[str, Any] = {}
    exec(notebooks.source(given), found)
    assert {name: found[name] for name in given} == given


def test_a_notebook_in_another_language_takes_no_parameters() -> None:
    content = json.dumps({"cells": [], "metadata": {"kernelspec": {"language": "R"}}}).encode()
    notebooks.check("r.ipynb", content, {})
    with pytest.raises(Invalid, match=r"r\.ipynb is in R"):
        notebooks.check("r.ipynb", content, {"lr": 1})
