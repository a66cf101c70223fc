"""What goes along with a cell is known before anything is sent, and is the same in the form and in a dry run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.along import Along, Variable, goes_along
from jupyter_ext.capture import Cell, NotSerializable, capture
from jupyter_ext.estimate import Accuracy, Size
from tests.jupyter_ext.conftest import Notebook
from tests.jupyter_ext.pool import Kernel, RunningPool

ASK = "__import__('jupyter_ext.kernel_form', fromlist=['_']).goes_along({}, {})"


def along(notebook: Notebook, source: str, **options: Any) -> Along:
    standard: dict[str, Any] = {
        "outputs": (),
        "only": None,
        "given": (),
        "limit": 2**30,
        "patterns": (),
        "no_files": False,
    }
    return goes_along(source, notebook.shell, Path.cwd(), **{**standard, **options})


def test_it_names_what_is_captured_with_types_and_sizes(notebook: Notebook) -> None:
    notebook.run("import json, numpy\nx = numpy.zeros(10**6)\nlr = 0.1", "def f():\n    return lr")
    source = "json.dumps(f())\nx.sum()"
    found = along(notebook, source)
    captured = capture(Cell(source, 1, ""), notebook.shell)
    assert [(each.name, each.type) for each in found.variables] == [
        ("x", "ndarray"),
        ("f", "function"),
        ("lr", "float"),
    ]
    sizes = {each.name: each.size.bytes for each in found.variables}
    assert sizes == {name: captured.sizes[name] for name in ("x", "f", "lr")}
    assert not found.refused


@pytest.mark.parametrize(
    ("code", "source", "options"),
    [
        ("conn = (n for n in ())", "conn", {}),
        ("import threading\nlock = threading.Lock()\ndef work():\n    return lock", "work()", {}),
        ("class T: ...\nt = T()\nt.state = {'rows': [1, (i for i in ())]}", "t", {}),
        ("x = bytes(10**6)", "x", {"limit": 10**5}),
        ("x = 1", "x", {"outputs": ["missing"]}),
        ("x = 1", "x", {"only": ["missing"]}),
    ],
)
def test_what_would_be_refused_is_refused_with_the_same_sentence(
    notebook: Notebook, code: str, source: str, options: dict[str, Any]
) -> None:
    notebook.run(code)
    with pytest.raises(NotSerializable) as refused:
        capture(Cell(source, 1, ""), notebook.shell, **options)
    assert along(notebook, source, **options).refused == [str(refused.value)]


def test_the_files_of_the_folder_go_along_without_notebooks(notebook: Notebook, write: Any) -> None:
    for name in ("a.py", "b.csv", "c.ipynb"):
        write(name, "12345")
    found = along(notebook, "1")
    assert (found.files, found.bytes) == (2, 10)
    assert str(found) == "Takes along 2 files of this folder (10 B)."
    assert str(along(notebook, "1", no_files=True)) == "Takes nothing along."
    assert along(notebook, "1", patterns=["*.tsv"]).refused == [
        f"No file in {write('a.py', '').parent} matches '*.tsv'; look at --in."
    ]


@pytest.mark.parametrize(
    ("source", "saves"),
    [
        ("total = sum(range(9))", False),
        ("fit()", False),
        ("Model().fit()", False),
        ("model.fit()", False),
        ("import plain\nplain.fit()", False),
        ("job.checkpoint(state)", True),
        ("torch.save(net, 'net.pt')", True),
        ("df.to_parquet('rows')", True),
        ("keeps()", True),
        ("outer()", True),
        ("Saving().fit()", True),
        ("saving.fit()", True),
        ("import helper\nhelper.fit()", True),
        ("!python helper.py", True),
    ],
)
def test_it_knows_whether_a_cell_may_save_something(notebook: Notebook, write: Any, source: str, saves: bool) -> None:
    write("helper.py", "from jupyter_ext.hooks import torch")
    write("plain.py", "def fit(): pass")
    write("helper.csv", "save")
    notebook.run(
        "def fit(): pass\ndef keeps():\n    open('state', 'wb').write(b'')\ndef outer():\n    keeps()",
        "class Model:\n    def fit(self): pass\nclass Saving:\n    def fit(self): self.dump()",
        "model, saving = Model(), Saving()",
    )
    assert along(notebook, source).saves is saves


def test_it_is_said_in_a_sentence() -> None:
    variables = [Variable("df", "DataFrame", Size(2**30, Accuracy.ABOUT)), Variable("x", "list", Size(2048))]
    variables += [Variable(name, "int", Size(5)) for name in "abcdef"]
    assert str(Along(variables[:1], 0, 0, ())) == "Takes along df (DataFrame, about 1.0 GiB)."
    assert str(Along(variables, 1, 9, ())) == (
        "Takes along df (DataFrame, about 1.0 GiB), x (list, 2.0 KiB), a (int, 5 B), b (int, 5 B), "
        "4 more and 1 file of this folder (9 B)."
    )


def ask(kernel: Kernel, line: str, cell: str) -> Any:
    """As the form asks: silently, with an expression."""
    expression = ASK.format(json.dumps(line), json.dumps(cell))
    return kernel.shown(expression)["application/json"]


def test_the_form_and_the_dry_run_say_the_same_and_change_nothing(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("rows = [1, 2, 3]\nlr = 0.1")
    before = kernel.value("(len(In), len(Out), dict(globals()).keys() - {'In'})")
    found = ask(kernel, "--gpus 0 --sweep lr=1,2", "print(rows, lr)")
    assert [(each["name"], each["type"]) for each in found["variables"]] == [("rows", "list")]
    assert "--gpu" in ask(kernel, "--gpux 1", "1")["problem"]
    assert ask(kernel, "", "x = = 1") == {"problem": "The cell is not valid Python: invalid syntax in `x = = 1`."}
    assert ask(kernel, "--in lrr", "lr")["problem"] == (
        "--in: there is neither a variable nor a file 'lrr'; did you mean `lr`?"
    )
    assert kernel.value("(len(In), len(Out), dict(globals()).keys() - {'In'})") == before
    shown = kernel.run("%%runai_train --gpus 0 --sweep lr=1,2 --dry-run\nprint(rows, lr)").stdout
    sizes = found["variables"][0]["size"]["bytes"]
    assert shown.splitlines()[0].startswith(f"Takes along rows (list, {sizes} B)")
