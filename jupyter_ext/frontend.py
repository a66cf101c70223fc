"""Which front end looks on: one with JupyterLab's renderer of jobs, or another, which gets an ipywidget in its place.

A kernel cannot ask. A notebook server with our extension has the front end's part, too: they come in one package. It
says so to the kernels that it starts. Whoever else starts one (VS Code, Voilà, papermill, …) gets a widget beside the
HTML; where both are there after all, JupyterLab takes its own, which stands before widgets in its order.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import DOMWidget

RENDERER = "RUNAI_RENDERER"
"""In a kernel's environment: its front end shows jobs by itself."""

VIEW = "application/vnd.jupyter.widget-view+json"


def wants_widgets(shell: Any) -> bool:
    return hasattr(shell, "kernel") and RENDERER not in os.environ and find_spec("ipywidgets") is not None


def view_of(widget: DOMWidget) -> dict[str, Any]:
    """The part of a mime bundle that shows a widget."""
    return {VIEW: widget._repr_mimebundle_()[VIEW]}
