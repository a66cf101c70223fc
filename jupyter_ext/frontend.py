"""The front end: which cell of it runs, and whether it has JupyterLab's renderer of jobs. Another one gets an ipywidget
instead.

A kernel cannot ask. A notebook server with our extension also has the front end's part, as they come in one package,
and it sets a variable for the kernels that it starts. Kernels started by others (VS Code, Voilà, papermill, …) get a
widget in addition to the HTML. Where both are available, JupyterLab prefers its own renderer.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import DOMWidget

    from scheduler.schema import NotebookCellSubmit

RENDERER = "RUNAI_RENDERER"
"""A variable in a kernel's environment: its front end has its own renderer of jobs."""

ROOT = "RUNAI_SERVER_ROOT"
"""A variable in a kernel's environment: the root folder of its notebook server."""

VIEW = "application/vnd.jupyter.widget-view+json"


def wants_widgets(shell: Any) -> bool:
    return hasattr(shell, "kernel") and RENDERER not in os.environ and find_spec("ipywidgets") is not None


def cell_of(shell: Any) -> NotebookCellSubmit | None:
    """The cell that runs now; `None` where the front end does not say which it is."""
    from scheduler.schema import NotebookCellSubmit

    id = shell.get_parent().get("metadata", {}).get("cellId") if hasattr(shell, "get_parent") else None
    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))
    root = os.environ.get(ROOT)
    if not (id and root and notebook.is_relative_to(root)):
        return None
    return NotebookCellSubmit(notebook=notebook.relative_to(root).as_posix(), id=id)


def view_of(widget: DOMWidget) -> dict[str, Any]:
    """The part of a mime bundle that shows a widget."""
    return {VIEW: widget._repr_mimebundle_()[VIEW]}
