"""The pool inside Jupyter: a server extension, the magics `%runai_train` and `%%runai_train`, and `jupyter_ext.job`.

Imports are lazy: every kernel imports this module, and a job may have little more than the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_ext.handle import Job
    from jupyter_ext.jobs import Jobs
    from jupyter_ext.search import Search
    from jupyter_ext.sweep import Sweep

__all__ = ["Job", "Jobs", "Search", "Sweep"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext jupyter_ext`: add the magics to a kernel."""
    from jupyter_ext.completion import register
    from jupyter_ext.magic import RunaiMagics

    shell.register_magics(RunaiMagics)
    register(shell)


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from jupyter_ext.extension import RunaiExtension

    return [{"module": "jupyter_ext", "app": RunaiExtension}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-runai"}]


def __getattr__(name: str) -> Any:
    if name == "Job":
        from jupyter_ext.handle import Job

        return Job
    if name == "Jobs":
        from jupyter_ext.jobs import Jobs

        return Jobs
    if name == "Search":
        from jupyter_ext.search import Search

        return Search
    if name == "Sweep":
        from jupyter_ext.sweep import Sweep

        return Sweep
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
