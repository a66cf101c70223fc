"""Which front end displays: one with JupyterLab's renderer of jobs, or another, which gets an ipywidget instead.

A kernel cannot ask. A notebook server with our extension also has the front end's part, as they come in one package,
and it sets a variable for the kernels that it starts. Kernels started by others (VS Code, Voilà, papermill, …) get a
widget in addition to the HTML. Where both are available, JupyterLab prefers its own renderer.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import DOMWidget

RENDERER = "RUNAI_RENDERER"
"""A variable in a kernel's environment: its front end has its own renderer of jobs."""

VIEW = "application/vnd.jupyter.widget-view+json"


def wants_widgets(shell: Any) -> bool:
    return hasattr(shell, "kernel") and RENDERER not in os.environ and find_spec("ipywidgets") is not None


def view_of(widget: DOMWidget) -> dict[str, Any]:
    """The part of a mime bundle that shows a widget."""
    return {VIEW: widget._repr_mimebundle_()[VIEW]}
