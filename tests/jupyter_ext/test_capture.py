"""What is captured with a cell, what is refused, and what is returned to the notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.capture import Captured, Cell, NotSerializable, capture
from jupyter_ext.serialization import CELL, RESULT, VARIABLES, unpack
from tests.jupyter_ext.conftest import Notebook
from tests.jupyter_ext.test_cells import run_as_job


def taken(notebook: Notebook, source: str, **options: Any) -> Captured:
    return capture(Cell(source, 7, "%%runai_train"), notebook.shell, **options)


def refusal(notebook: Notebook, source: str, **options: Any) -> str:
    with pytest.raises(NotSerializable) as refused:
        taken(notebook, source, **options)
    return str(refused.value)


def test_only_used_variables_are_captured(notebook: Notebook) -> None:
    notebook.run(
        "big = bytes(10**6)\nx = 1\ny = 2\nshape = 3",
        "def f():\n    return y",
        "def g():\n    return big.shape",
    )
    assert set(taken(notebook, "x + f()").sizes) == {"x", "y", "f"}


def test_variables_that_the_cell_assigns_are_not_captured(notebook: Notebook) -> None:
    notebook.run("import sqlite3\nconn = sqlite3.connect(':memory:')")
    assert set(taken(notebook, "conn = sqlite3.connect(':memory:')\nconn.execute('select 1')").sizes) == {"sqlite3"}
    notebook.run("conn.close()")


def test_variables_of_functions_that_the_cell_assigns_are_not_captured(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("import threading\nlock = threading.Lock()", "def work():\n    with lock: return 5")
    done, _, output = job(notebook, tmp_path, "lock = threading.Lock()\ny = work()", outputs=["y"])
    assert done.returncode == 0, done.stdout
    assert unpack((output / VARIABLES).read_bytes(), ("y",)) == {"y": 5}


def test_variables_excluded_by_in_are_not_sent_with_functions(notebook: Notebook) -> None:
    notebook.run("big = bytes(10**6)\ndef work():\n    return len(big)")
    assert taken(notebook, "big = b'new'\nwork()", only=["work"]).sizes["work"] < 1000
    assert taken(notebook, "work()", only=["work"]).sizes["work"] > 10**6


def test_sizes_are_those_of_each_variable(notebook: Notebook) -> None:
    notebook.run("small = 1\nlarge = bytes(10**6)\nagain = large")
    sizes = taken(notebook, "small, large, again").sizes
    assert sizes["small"] < 100
    assert 10**6 < sizes["large"] < 10**6 + 100
    assert sizes["again"] < 100


def test_a_variable_that_cannot_be_serialized_is_named_with_advice(notebook: Notebook) -> None:
    notebook.run("import sqlite3\nconn = sqlite3.connect(':memory:')\nx = 1")
    said = refusal(notebook, "print(x, conn)")
    assert said.startswith("`conn` can't be sent: sqlite3.Connection (cannot pickle 'sqlite3.Connection' object).")
    assert "Create it inside the cell, or choose what to send with --in." in said
    notebook.run("conn.close()")


def test_the_function_that_uses_it_is_named_too(notebook: Notebook) -> None:
    notebook.run("import threading\nlock = threading.Lock()", "def work():\n    with lock: return 1")
    said = refusal(notebook, "work()")
    assert said.startswith("`lock`, which `work` uses, can't be sent: _thread.lock")
    assert "\n" not in said, "the function itself is not to blame"


def test_the_part_that_cannot_be_serialized_is_named(notebook: Notebook) -> None:
    notebook.run("class Trainer: ...\nt = Trainer()\nt.state = {'rows': [1, (i for i in ())]}")
    said = refusal(notebook, "t")
    assert "`t.state['rows'][1]` is a generator" in said
    assert "create it inside the cell" in said


def test_all_variables_that_cannot_be_serialized_are_named_at_once(notebook: Notebook) -> None:
    notebook.run("a = (i for i in ())\nb = open(__import__('os').devnull, 'w')\nc = 1")
    said = refusal(notebook, "a, b, c").splitlines()
    assert [line.split()[0] for line in said] == ["`a`", "`b`"]
    assert "Open it inside the cell" in said[1]
    notebook.run("b.close()")


def test_too_large_says_by_how_much(notebook: Notebook) -> None:
    notebook.run("small = 1\nlarge = bytes(3 * 2**20)")
    said = refusal(notebook, "small, large", limit=2**20)
    assert "`large` makes the variables larger than 1.0 MiB" in said
    assert "--in" in said


def test_a_name_in_out_that_is_never_assigned(notebook: Notebook) -> None:
    assert refusal(notebook, "accuracy = 1", outputs=["acuracy"]) == (
        "The cell never assigns `acuracy`, so --out can't return it; did you mean `accuracy`?"
    )
    assert "is not a name" in refusal(notebook, "a = 1", outputs=["a.b"])
    assert taken(notebook, "exec('found = 1')", outputs=["found"]).sizes == {}


def test_a_variable_changed_in_place_is_sent_and_returned(notebook: Notebook) -> None:
    notebook.run("rows = []")
    assert set(taken(notebook, "pass", outputs=["rows"]).sizes) == {"rows"}


def test_in_names_what_goes_instead(notebook: Notebook) -> None:
    notebook.run("x = 1\ny = 2")
    assert set(taken(notebook, "print(x)", only=["y"]).sizes) == {"y"}
    assert taken(notebook, "print(x)", only=[]).sizes == {}
    assert refusal(notebook, "x", only=["yy"]).startswith("There is no variable `yy`")


def test_the_same_cell_and_variables_give_the_same_bytes(notebook: Notebook) -> None:
    notebook.run("class A: ...\na = A()\nd = {'x': [1, 'two']}", "def f(n):\n    return d, n")
    assert taken(notebook, "f(a)").files == taken(notebook, "f(a)").files


def job(notebook: Notebook, tmp_path: Path, source: str, **options: Any) -> tuple[Any, dict[str, Any], Path]:
    """Run a cell as a job does; returns its process, its result and its output folder."""
    done, output = run_as_job(taken(notebook, source, **options).files, Path.cwd(), tmp_path / "job")
    return done, json.loads((output / RESULT).read_text()), output


def test_a_class_of_the_notebook_comes_back_as_that_class(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("k = 1", "class Model:\n    def guess(self): return self.w * k", "m = Model()\nm.w = 2")
    before = notebook["Model"].guess
    done, _, output = job(notebook, tmp_path, "k = 50\nm.w = 21", outputs=["m"])
    assert done.returncode == 0
    back = unpack((output / VARIABLES).read_bytes(), ("m",))["m"]
    assert type(back) is notebook["Model"]
    assert notebook["Model"].guess is before
    notebook.shell.push({"m": back})
    notebook.run("k = 2\ny = m.guess()")
    assert notebook["y"] == 42
    assert notebook["k"] == 2


def test_a_class_made_in_the_job_comes_back_whole(notebook: Notebook, tmp_path: Path) -> None:
    _, _, output = job(notebook, tmp_path, "u = 'm'\nclass A:\n    def f(self): return u\na = A()", outputs=["a"])
    assert unpack((output / VARIABLES).read_bytes(), ("a",))["a"].f() == "m"


def test_shared_references_are_kept_in_results(notebook: Notebook, tmp_path: Path) -> None:
    _, _, output = job(notebook, tmp_path, "model = [1]\noptimizer = {'p': model}", outputs=["model", "optimizer"])
    back = unpack((output / VARIABLES).read_bytes(), ("model", "optimizer"))
    assert back["optimizer"]["p"] is back["model"]


def test_results_that_cannot_be_serialized_are_named_and_others_returned(notebook: Notebook, tmp_path: Path) -> None:
    cell = "a = 1\nif not a:\n    b = 2\nc = (i for i in ())\nd = [a]"
    done, result, output = job(notebook, tmp_path, cell, outputs=["a", "b", "c", "d"])
    assert done.returncode == 0
    assert (result["variables"], result["missing"]) == (["a", "d"], ["b"])
    assert "generator" in result["refused"]["c"]
    assert unpack((output / VARIABLES).read_bytes(), ("a", "d")) == {"a": 1, "d": [1]}
    assert "`b` was named in --out, but the cell did not assign it" in done.stderr


def test_a_traceback_has_the_notebooks_own_lines_and_numbers(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("x = 0", "def divide(n):\n    # the second line\n    return n / x")
    done, result, _ = job(notebook, tmp_path, "a = 1\ndivide(a)")
    assert done.returncode == 1
    assert "Cell In[7], line 3" in done.stdout
    assert "----> 3 divide(a)" in done.stdout
    assert "Cell In[2], line 3, in divide(n)" in done.stdout
    assert "----> 3     return n / x" in done.stdout
    assert (result["error"]["name"], result["error"]["message"]) == ("ZeroDivisionError", "division by zero")


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(4)", 4), ("sys.exit()", 0), ("sys.exit('no luck')", 1), ("1 +", 1)]
)
def test_how_a_cell_ends(end: str, code: int, notebook: Notebook, tmp_path: Path) -> None:
    files = {**taken(notebook, "import sys").files}
    about = json.loads(bytes(files[CELL]))
    done, _ = run_as_job(
        {**files, CELL: json.dumps({**about, "source": f"import sys\n{end}"}).encode()},
        Path.cwd(),
        tmp_path / "j",
    )
    assert done.returncode == code
    assert ("no luck" in done.stderr) is ("luck" in end)
    assert "To exit" not in done.stderr


@pytest.mark.parametrize("ask", ["input('Which one?')", "import getpass\ngetpass.getpass('Which one?')"])
def test_input_in_a_job_is_refused(ask: str, notebook: Notebook, tmp_path: Path) -> None:
    about = json.loads(bytes(taken(notebook, "1").files[CELL]))
    files = {**taken(notebook, "1").files, CELL: json.dumps({**about, "source": ask}).encode()}
    done, _ = run_as_job(files, Path.cwd(), tmp_path / "j")
    assert done.returncode == 1
    assert "EOFError: Which one? A job has no keyboard; pass the answer as a variable." in (done.stdout)


def test_a_different_python_version_is_reported(notebook: Notebook, tmp_path: Path) -> None:
    files = {**taken(notebook, "1").files}
    about = json.loads(bytes(files[CELL]))
    done, _ = run_as_job({**files, CELL: json.dumps({**about, "python": [3, 2]}).encode()}, Path.cwd(), tmp_path / "j")
    assert done.returncode == 3
    assert "The cell was sent from Python 3.2" in done.stderr


def test_a_variable_that_cannot_be_read_in_the_job_is_named(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("class Odd:\n    def __reduce__(self): return int, ('x',)\nfine, odd = 1, Odd()")
    done, _ = run_as_job(taken(notebook, "fine, odd").files, Path.cwd(), tmp_path / "job")
    assert done.returncode == 3
    assert "The variable `odd` can't be read in the job; the traceback above says why." in done.stderr
    assert "invalid literal for int()" in done.stderr
