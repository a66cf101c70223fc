"""Whether a cell may save anything while it runs, judged by its text and by that of the code that it uses.

What must hold: a cell is said to save nothing only where nothing in the text points to saving. What a library does by
itself is not seen in it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

_SAVING = re.compile(r"checkpoint|ckpt|save|saving|dump|write|to_\w+\(|output_dir|jupyter_ext\.hooks", re.IGNORECASE)

_LONGEST = 2**20
"""The most bytes that are read of a file."""


def saves(source: str, variables: Mapping[str, Any], files: Iterable[Path]) -> bool:
    """Whether the cell, one of its variables' functions and classes, or a file whose name it contains saves."""
    named = (
        path for path in files if path.suffix in (".py", ".ipy") and re.search(rf"\b{re.escape(path.stem)}\b", source)
    )
    return any(map(_SAVING.search, (source, *_sources(variables), *map(_text, named))))


def _sources(variables: Mapping[str, Any]) -> Iterator[str]:
    for function in filter(inspect.isfunction, _members(variables.values())):
        if function.__module__ == "__main__":
            try:
                yield inspect.getsource(function)
            except (OSError, TypeError):
                yield "save"  # its text is not known


def _members(values: Iterable[Any]) -> Iterator[Any]:
    """Functions, and the methods of classes and of objects."""
    for value in values:
        yield value
        for kind in (value if inspect.isclass(value) else type(value)).__mro__:
            yield from (getattr(member, "__func__", member) for member in vars(kind).values())


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST).decode("utf-8", "replace")
    except OSError:
        return "save"
