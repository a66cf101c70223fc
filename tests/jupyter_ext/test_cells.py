"""A cell has the same results in the notebook and in the job: the real cells of `cells.txt`, run both ways."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.capture import Cell, capture
from jupyter_ext.payload import PYTHON
from jupyter_ext.serialization import RESULT, VARIABLES, unpack
from scheduler.files.bundle import Content
from tests.jupyter_ext.conftest import Notebook, environment


@dataclass(frozen=True)
class Case:
    name: str
    cell: str
    before: tuple[str, ...]
    files: Mapping[str, str]
    out: tuple[str, ...]
    needs: str


def cases() -> Iterator[Case]:
    """The cases of `cells.txt`, which describes its format."""
    for section in re.split(r"^=== ", (Path(__file__).parent / "cells.txt").read_text("utf-8"), flags=re.M)[1:]:
        head, *parts = re.split(r"^--- (before|cell|file \S+)\n", section.rstrip("\n") + "\n", flags=re.M)
        name, *options = head.strip().splitlines()
        given = dict(option.split(": ", 1) for option in options)
        texts = [(kind, text.rstrip("\n")) for kind, text in zip(parts[::2], parts[1::2], strict=True)]
        yield Case(
            name,
            cell=next(text for kind, text in texts if kind == "cell"),
            before=tuple(text for kind, text in texts if kind == "before"),
            files={kind.removeprefix("file "): text for kind, text in texts if kind.startswith("file ")},
            out=tuple(given.get("out", "").split()),
            needs=given.get("needs", ""),
        )


ADDRESS = re.compile(r"0x[0-9a-f]+")
TIME = re.compile(r"[\d.]+(e\+\d+)? [nuµμm]?s\b")


def plain(text: str) -> str:
    """Without addresses and times, which differ between runs."""
    return TIME.sub("? s", ADDRESS.sub("0x", text))


def run_as_job(files: Mapping[str, Content], folder: Path, job: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """As the engine does: unpack the bundle, and run the command in it."""
    shutil.copytree(folder, job / "work")
    for name, content in files.items():
        file = job / "work" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    (job / "output").mkdir()
    done = subprocess.run(
        PYTHON,
        cwd=job / "work",
        env=environment(RUNAI_JOB_ID="j1", RUNAI_OUTPUT_DIR=str(job / "output"), PYTHONUNBUFFERED="1"),
        capture_output=True,
    )
    # Not `text=True`, which treats the \r of a progress bar as a line end.
    text = subprocess.CompletedProcess(
        done.args, done.returncode, *(t.decode().replace("\r\n", "\n") for t in (done.stdout, done.stderr))
    )
    return text, job / "output"


def same(one: Any, other: Any) -> bool:
    if "numpy" in sys.modules and type(one).__module__ == "numpy":
        import numpy

        return bool(numpy.array_equal(one, other))
    if hasattr(one, "equals"):
        return bool(one.equals(other))
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("here", [*cases()], ids=lambda case: case.name)
def test_a_cell_gives_the_same_in_the_notebook_and_in_the_job(
    here: Case, notebook: Notebook, write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    if here.needs and importlib.util.find_spec(here.needs) is None:
        pytest.skip(f"{here.needs} is not installed")
    for file, text in here.files.items():
        write(file, text)
    notebook.run(*here.before)
    cell = Cell(here.cell, notebook.shell.execution_count, "%%runai_train")
    captured = capture(cell, notebook.shell, outputs=here.out)

    done, output = run_as_job(captured.files, Path.cwd(), tmp_path / "job")
    printed = notebook.run(here.cell)

    assert done.returncode == 0, done.stdout + done.stderr
    assert plain(done.stdout) == plain(re.sub(r"^Out\[\d+\]: ", "", printed, flags=re.M))
    assert done.stderr == ""
    assert (output / RESULT).exists()
    back = unpack((output / VARIABLES).read_bytes(), here.out)
    for variable in here.out:
        assert same(back[variable], notebook[variable]), variable
