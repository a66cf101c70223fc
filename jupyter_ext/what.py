"""What a magic's line and cell say is to be run: the program, and the files that it needs beside those of the folder."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError

from jupyter_ext.capture import Cell, capture
from scheduler.errors import Invalid
from scheduler.files.bundle import Content
from scheduler.submission import notebooks

PYTHON = (sys.executable, "-P", "-m", "jupyter_ext.cell_runner")
"""`-P`: a `random.py` in the working directory must not come before the standard library's while the runner starts."""


@dataclass(frozen=True, slots=True)
class What:
    """What is to be run: the program and the files that it needs beside those of the folder."""

    kind: str
    name: str
    command: tuple[str, ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    patterns: Sequence[str] = ()


def of_cell(
    asked: argparse.Namespace, line: str, text: str, shell: Any, *, limit: int, swept: Collection[str]
) -> What:
    """The cell `text`; the names in `swept` are given to it in the job."""
    if asked.script:
        word = asked.script[0]
        raise UsageError(
            f"{word!r} is no option. A list such as --out a,b has no spaces; a script runs with one percent sign, "
            "%runai_train."
        )
    if asked.tail is not None:
        raise UsageError(
            "A cell takes no arguments after `--`; to send a command, use %runai_train with one percent sign."
        )
    only, patterns = _takes(asked, shell.user_ns)
    number = (
        len(shell.user_ns["In"]) - 1
    )  # while a cell runs, the shell's own count may be the next one's already
    cell = Cell(text, number, f"%%runai_train {line}".rstrip())
    try:
        captured = capture(cell, shell, outputs=asked.out, only=only, given=swept, limit=limit)
    except SyntaxError as error:
        raise _not_python(error, cell) from None
    return What("cell", f"cell-{cell.number}", PYTHON, captured.files, captured.sizes, patterns)


def _takes(
    asked: argparse.Namespace, namespace: Mapping[str, Any]
) -> tuple[Sequence[str] | None, Sequence[str]]:
    """`--in` as the variables (`None`: those the cell uses) and the patterns of files that it names."""
    if asked.takes is None:
        return ([] if asked.no_capture else None), ()
    variables = [name for name in asked.takes if name in namespace]
    patterns = [name for name in asked.takes if name not in namespace]
    for name in patterns:
        if name.isidentifier() and not Path(name).exists():
            close = difflib.get_close_matches(name, [n for n in namespace if not n.startswith("_")], n=1)
            meant = f"; did you mean `{close[0]}`?" if close else "."
            raise UsageError(f"--in: there is neither a variable nor a file {name!r}{meant}")
    if asked.no_capture and variables:
        raise UsageError(
            f"--in names the variable `{variables[0]}`, but --no-capture sends none; remove one of them."
        )
    return (variables or ([] if asked.no_capture else None)), patterns


def of_command(asked: argparse.Namespace) -> What | None:
    """A script or a command; `None` where the line names neither."""
    for option, given in (("--out", asked.out), ("--no-capture", asked.no_capture)):
        if given:
            raise UsageError(
                f"{option} is for cells (%%runai_train); a script writes files to $RUNAI_OUTPUT_DIR instead."
            )
    patterns: Sequence[str] = asked.takes or ()
    if asked.parameters and not (asked.script and asked.script[0].endswith(notebooks.SUFFIX)):
        raise UsageError("-p is for notebooks; put the arguments of a script or a command after `--`.")
    match asked.script:
        case []:
            if not asked.tail:
                return None
            return What("command", _name(asked.tail[0]), tuple(asked.tail), patterns=patterns)
        case [notebook] if notebook.endswith(notebooks.SUFFIX):
            return _of_notebook(asked, notebook)
        case [script]:
            path = _script(script)
            program = (sys.executable, str(path)) if path.suffix == ".py" else (f"./{path}",)
            files = {path.as_posix(): path.read_bytes()} if path.suffix == ".py" else {}
            return What("script", _name(path.name), (*program, *(asked.tail or ())), files, patterns=patterns)
        case [script, word, *_]:
            raise UsageError(f"Put the arguments of {script} after `--`: %runai_train {script} -- {word} …")
    raise AssertionError(asked.script)


def _of_notebook(asked: argparse.Namespace, notebook: str) -> What:
    """A whole notebook; it goes along as it is saved."""
    if asked.tail:
        raise UsageError(f"A notebook takes parameters: %runai_train {notebook} -p NAME=VALUE.")
    path, parameters = _inside(notebook), dict(asked.parameters)
    try:
        notebooks.check(path, parameters)
    except Invalid as error:
        raise UsageError(error.sentence) from None
    return What(
        "notebook",
        _name(path.stem),
        tuple(notebooks.command(path.as_posix(), parameters)),
        {path.as_posix(): path.read_bytes()},
        patterns=asked.takes or (),
    )


def of_template(given: Mapping[str, Any]) -> What | None:
    """What a template runs, where it says so."""
    command = given.get("command")
    if not command:
        return None
    kind, patterns = given.get("kind", "command"), given.get("in", ())
    return What(kind, given.get("name") or _name(command[0]), tuple(command), patterns=patterns)


def _not_python(error: SyntaxError, cell: Cell) -> Exception:
    """What Python says of a cell that it can't read, with the line counted as in the notebook."""
    from jupyter_ext.handle import Calm

    error.filename = f"Cell In[{cell.number}]"
    if error.lineno is not None:
        error.lineno += 1  # the magic's own line
    return Calm("".join(traceback.format_exception_only(error)))


def _script(given: str) -> Path:
    """A script as a path below the working directory."""
    path = _inside(given)
    if path.suffix != ".py" and not os.access(path, os.X_OK):
        raise UsageError(f"{given} is neither a Python script nor a program; say how to run it after `--`.")
    return path


def _inside(given: str) -> Path:
    """A file as a path below the working directory."""
    path = Path(given).expanduser()
    if not path.is_file():
        folder = path.parent
        names = os.listdir(folder) if folder.is_dir() else []
        close = difflib.get_close_matches(path.name, names, n=1)
        meant = f"; did you mean {folder / close[0]}?" if close else "."
        raise UsageError(f"There is no file {given} in {Path.cwd()}{meant}")
    here = Path.cwd().resolve()
    whole = path.resolve()
    if not whole.is_relative_to(here):
        raise UsageError(
            f"{given} is outside {here}, the folder that the job gets; change to its folder first with %cd."
        )
    return whole.relative_to(here)


def _name(text: str) -> str:
    """A name for the job from a file or a program; what a name can't have is left out."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(text).name).strip("._-")[:128] or "job"
