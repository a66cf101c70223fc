"""The front end of the cell that runs: whether it shows jobs as live cards, and which cell it is.

A kernel cannot ask, and several front ends may use one kernel in turn, so this is decided for each execution. The pages
of our JupyterLab extension (in JupyterLab and Notebook 7) mark their execute requests (`executions.ts`). Where the mark
is missing (VS Code, Voilà, …), a job is shown as a widget in addition to the HTML. A page that could show both prefers
its own renderer.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import DOMWidget

    from scheduler.schema import NotebookCellSubmit

RENDERER = "runai_renderer"
"""A key in the metadata of an execute request: the page that sent it has a renderer of jobs."""

ROOT = "RUNAI_SERVER_ROOT"
"""A variable in a kernel's environment: the root folder of its notebook server."""

VIEW = "application/vnd.jupyter.widget-view+json"


def get_shell() -> Any:
    from IPython.core.getipython import get_ipython

    return get_ipython()


def in_marimo() -> bool:
    """Whether this is a cell on a page of marimo, which has no shell and no display ids, but IPython's `display`."""
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


def has_renderer(shell: Any) -> bool:
    return _request(shell).get("metadata", {}).get(RENDERER) is True


def is_attended(shell: Any) -> bool:
    """Whether a page shows the output while the kernel lives. nbconvert, nbclient and papermill answer no questions, as
    nobody is there, and only keep the output; Voilà serves what they run."""
    answers = _request(shell).get("content", {}).get("allow_stdin") is True
    return answers or os.environ.get("SERVER_SOFTWARE", "").startswith("voila/")


def wants_widgets(shell: Any) -> bool:
    return is_attended(shell) and not has_renderer(shell) and find_spec("ipywidgets") is not None


def cell_of(shell: Any) -> NotebookCellSubmit | None:
    """The cell that runs now; `None` where the front end does not say which it is.

    VS Code says it by an address of its own, under a kernel session whose name is no file's.
    """
    from scheduler.schema import NotebookCellSubmit

    id = _request(shell).get("metadata", {}).get("cellId")
    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))
    root = os.environ.get(ROOT)
    if not (id and ":" not in id and root and notebook.is_relative_to(root)):
        return None
    return NotebookCellSubmit(notebook=notebook.relative_to(root).as_posix(), id=id)


def view_of(widget: DOMWidget) -> dict[str, Any]:
    """The part of a mime bundle that shows a widget."""
    return {VIEW: widget._repr_mimebundle_()[VIEW]}


def _request(shell: Any) -> dict[str, Any]:
    """The execute request that runs now; empty in a terminal."""
    return shell.get_parent() if hasattr(shell, "get_parent") else {}
