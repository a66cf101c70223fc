"""A whole notebook as a job: its parameters, by papermill's convention, and the command that executes it.

The cell with the tag `parameters` assigns the defaults; given values are assigned in a cell right after it.
"""

from __future__ import annotations

import ast
import difflib
import json
import sys
from collections.abc import Mapping
from typing import Any

from scheduler.errors import Invalid
from scheduler.model import Parameter

SUFFIX = ".ipynb"
TAG = "parameters"
INJECTED = "injected-parameters"


def command(notebook: str, parameters: Mapping[str, Parameter]) -> list[str]:
    """The command that executes a notebook in a job: its path below the working directory, and the parameters."""
    given = [word for name, value in parameters.items() for word in ("-p", f"{name}={json.dumps(value)}")]
    return [sys.executable, "-P", "-m", "jupyter_ext.notebook_runner", notebook, *given]


def check(file: str, content: bytes, parameters: Mapping[str, Parameter]) -> None:
    """Raises `Invalid` for a file that is not a notebook, and for a parameter that it does not have."""
    try:
        notebook = json.loads(content)
        cells = notebook["cells"]
    except (ValueError, KeyError, TypeError):
        raise Invalid(f"{file} is not a notebook of format 4; open it in JupyterLab and save it.") from None
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    if parameters and language != "python":
        raise Invalid(f"Parameters are for notebooks in Python, and {file} is in {language}.")
    known = _assigned(cells)
    for name in parameters:
        if not name.isidentifier():
            raise Invalid(f"-p: {name!r} can't be the name of a variable.", field="notebook_parameters")
        if known is not None and name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {close[0]}?" if close else f"; it has {', '.join(sorted(known)) or 'none'}."
            raise Invalid(f"-p: {file} has no parameter {name!r}{meant}", field="notebook_parameters")


def inject(cells: list[Any], parameters: Mapping[str, Parameter], cell: Any) -> None:
    """Insert `cell`, which assigns the parameters, in place of an earlier one or after the tagged cell."""
    if not parameters:
        return
    places = {tag: at for at, each in enumerate(cells) for tag in (INJECTED, TAG) if tag in _tags(each)}
    if INJECTED in places:
        cells[places[INJECTED]] = cell
    else:
        cells.insert(places.get(TAG, -1) + 1, cell)


def source(parameters: Mapping[str, Parameter]) -> str:
    return "\n".join(["# Parameters", *(f"{name} = {value!r}" for name, value in parameters.items())])


def _tags(cell: Any) -> list[str]:
    return cell.get("metadata", {}).get("tags", []) if cell.get("cell_type") == "code" else []


def _assigned(cells: list[Any]) -> set[str] | None:
    """The names that the tagged cell assigns; `None` where there is no such cell, or it can't be read."""
    for cell in cells:
        if TAG in _tags(cell):
            try:
                tree = ast.parse("".join(cell["source"]))
            except SyntaxError:
                return None
            return {
                node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
    return None
