"""What the end of a worker's log says of why it failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

TAIL = 64 * 1024
"""So many bytes of the end of a log are looked at."""

_LONGEST = 200
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_RANK = re.compile(r"^\[rank\d+\]:\s*")
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning|Abort): \S")
_IN_USE = re.compile("EADDRINUSE|address already in use", re.IGNORECASE)


def last_words(log: str) -> str:
    """The last exception that a log tells of (`ValueError: …`), else its last line; empty where it says nothing.

    What launchers such as `torchrun` write below an exception is about themselves.
    """
    lines = [_RANK.sub("", _CONTROL.sub("", line)).strip() for line in log.splitlines()]
    exceptions = [line for line in lines if _EXCEPTION.match(line)]
    said = next(reversed(exceptions or list(filter(None, lines))), "")
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"


def taken(log: str, ports: Sequence[int]) -> int | None:
    """Which of these ports a worker found in another's hands when it wanted to listen there."""
    complaints = [line for line in log.splitlines() if _IN_USE.search(line)]
    return next((port for port in ports if any(str(port) in line for line in complaints)), None)
