"""Answers the form of a job, which asks the kernel what a cell would take along by an expression of a silent request.

What must hold: the kernel is as it was before: its history, its outputs and its last error; errors are in the answer.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython


class Answer:
    """Shown as JSON, in the reply to the request only."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"application/json": self._content}


def goes_along(line: str, cell: str) -> Answer:
    """What `cell` would take along below the magic with the options `line`, or why it can't be said."""
    from jupyter_ext.magic import RunaiMagics

    shell: Any = get_ipython()
    magics = shell.magics_manager.registry.get("RunaiMagics") or RunaiMagics(shell)
    try:
        return Answer(asdict(magics.goes_along(line, cell)))
    except UsageError as error:
        return Answer({"problem": str(error)})
    except SyntaxError as error:
        place = f" in `{error.text.strip()}`" if error.text else ""
        return Answer({"problem": f"The cell is not valid Python: {error.msg}{place}."})
