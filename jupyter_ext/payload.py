"""The program of a magic: its cell, or what its line names."""

from __future__ import annotations

import argparse
import difflib
import sys
import traceback
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_ext.capture import Cell, capture
from scheduler.errors import Misused
from scheduler.model import JobKind
from scheduler.submission.programs import Program, name_of, program_of

LINE = "%runai_train"

PYTHON = (sys.executable, "-P", "-m", "jupyter_ext.cell_runner")
"""`-P`: a `random.py` in the working directory must not come before the standard library's while the runner starts."""


def of_cell(
    asked: argparse.Namespace,
    line: str,
    text: str,
    shell: Any,
    *,
    takes: Sequence[str] | None,
    outputs: Sequence[str],
    swept: Collection[str],
    limit: int,
) -> Program:
    """The cell `text`. `takes` names the variables and files to send; the job provides the names in `swept`."""
    if asked.script:
        word = asked.script[0]
        raise Misused(
            f"{word!r} is not an option. Write lists such as --out a,b without spaces; to send a script, use "
            "%runai_train with one percent sign."
        )
    if asked.tail is not None:
        raise Misused(
            "A cell takes no arguments after `--`; to send a command, use %runai_train with one percent sign."
        )
    if asked.notebook_parameters:
        raise Misused("-p is for notebooks; a cell uses the variables of this notebook.")
    only, patterns = split(takes, shell.user_ns, nothing=bool(asked.no_capture))
    # while a cell runs, the shell's count may already be that of the next one
    number = len(shell.user_ns["In"]) - 1
    cell = Cell(text, number, f"%%runai_train {line}".rstrip())
    try:
        captured = capture(cell, shell, outputs=outputs, only=only, given=swept, limit=limit)
    except SyntaxError as error:
        raise _not_python(error, cell) from None
    hint = ""
    if captured.changed:
        names = " and ".join(f"`{name}`" for name in captured.changed)
        hint = (
            f"The cell changes {names} in the job only; add --out {','.join(captured.changed)} to get the changes back."
        )
    return Program(JobKind.CELL, f"cell-{cell.number}", PYTHON, captured.files, captured.sizes, patterns, hint)


def split(
    takes: Sequence[str] | None, namespace: Mapping[str, Any], *, nothing: bool
) -> tuple[Sequence[str] | None, Sequence[str]]:
    """`--in` as the variables (`None`: those the cell uses) and the patterns of files that it names."""
    if takes is None:
        return ([] if nothing else None), ()
    variables = [name for name in takes if name in namespace]
    patterns = [name for name in takes if name not in namespace]
    for name in patterns:
        if name.isidentifier() and not Path(name).exists():
            close = difflib.get_close_matches(name, [n for n in namespace if not n.startswith("_")], n=1)
            meant = f"; did you mean `{close[0]}`?" if close else "."
            raise Misused(f"--in: there is neither a variable nor a file {name!r}{meant}")
    if nothing and variables:
        raise Misused(f"--in names the variable `{variables[0]}`, but --no-capture sends none; remove one of them.")
    return (variables or ([] if nothing else None)), patterns


def of_line(asked: argparse.Namespace, given: Mapping[str, Any]) -> Program | None:
    """A script, a notebook or a command, or the program of the template; `None` where the line names neither."""
    for name in ("outputs", "no_capture"):
        if name in asked.typed:
            raise Misused(
                f"{asked.typed[name]} is for cells (%%runai_train); a script writes files to $RUNAI_OUTPUT_DIR instead."
            )
    patterns = given.get("in", ())
    found = program_of(
        asked.script,
        asked.tail,
        Path.cwd(),
        line=LINE,
        parameters=asked.notebook_parameters,
        patterns=patterns,
    )
    command = given.get("command")
    if found is not None or not command:
        return found
    kind, name = JobKind(given.get("kind", JobKind.COMMAND)), given.get("name") or name_of(asked.template)
    return Program(kind, name, tuple(command), patterns=patterns)


def _not_python(error: SyntaxError, cell: Cell) -> Exception:
    """Python's error for a cell that it cannot read, with the line number in the notebook."""
    from jupyter_ext.handle import PlainError

    error.filename = f"Cell In[{cell.number}]"
    if error.lineno is not None:
        error.lineno += 1  # the magic's own line
    return PlainError("".join(traceback.format_exception_only(error)))
