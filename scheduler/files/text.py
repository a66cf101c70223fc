"""The text of files that people name."""

from __future__ import annotations

import sys
from pathlib import Path

from scheduler.errors import Invalid


def read_text(name: str, what: str) -> tuple[str, str]:
    """The text of a file, and its name for messages; `-` is standard input. Raises `Invalid`:
    `The pool file x cannot …`."""
    if name == "-":
        return sys.stdin.read(), "Standard input"
    try:
        return Path(name).read_text("utf-8"), name
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise Invalid(f"The {what} {name} cannot be read ({why}).") from None
