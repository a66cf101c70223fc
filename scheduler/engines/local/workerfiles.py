"""What a worker's files say, whatever is in them.

A power cut leaves files empty or cut short, a disk leaves noise, and a job that runs as the scheduler's own user can
write what it likes. What must hold: nothing here raises but `OSError`, and no number is handed on that cannot be right.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import time
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final, Literal

from scheduler.worker import supervisor

LONGEST = 2**24
"""So many bytes of a file are read: more than any environment can have."""

_CLAIM = re.compile(rb"([0-9]{1,9})(?: ([0-9A-Fa-f-]{36})?)?\n?")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]+")
_SAID = 200


@dataclass(frozen=True, slots=True)
class Claim:
    """Who has taken a worker: a process (0: nobody ever starts it), and in which boot of the machine (empty: not
    known)."""

    pid: int
    boot: str

    @property
    def of_earlier_boot(self) -> bool:
        """Whether it was made before the machine was started the last time."""
        return self.boot not in ("", supervisor.boot())


@dataclass(frozen=True, slots=True)
class End:
    """How a worker ended; `stopped`: whether it was told to before, where that is written down."""

    at: float
    exit_code: int | None
    reason: str
    stopped: bool | None


class Damaged(Enum):
    """What a file that cannot be understood is read as. It is false."""

    DAMAGED = auto()

    def __bool__(self) -> Literal[False]:
        return False


DAMAGED: Final = Damaged.DAMAGED


def read_claim(file: Path) -> Claim | Literal[Damaged.DAMAGED] | None:
    """Who has taken a worker; `None` where nobody has."""
    try:
        found = _CLAIM.fullmatch(_bytes(file, 128))
    except FileNotFoundError:
        return None
    return Claim(int(found[1]), (found[2] or b"").decode()) if found else DAMAGED


def read_end(file: Path) -> End | Literal[Damaged.DAMAGED] | None:
    """How a worker ended; `None` where that is not written down."""
    try:
        found = _mapping(_bytes(file, LONGEST))
    except FileNotFoundError:
        return None
    at, code, reason = _instant(found.get("ended")), found.get("exit_code", False), found.get("reason")
    if at is None or not isinstance(reason, str) or not (code is None or _is_exit_code(code)):
        return DAMAGED
    stopped = found.get("stopped")
    return End(at, code, printable(reason), stopped if isinstance(stopped, bool) else None)


def read_start(file: Path) -> float | None:
    """When a worker was started, by its `status.json`, or that file's time where it is damaged; `None` without one."""
    try:
        made, content = file.stat().st_mtime, _mapping(_bytes(file, LONGEST))
    except FileNotFoundError:
        return None
    started = _instant(content.get("started"))
    return _instant(made) if started is None else started


def read_ports(spec: dict[str, Any]) -> tuple[int, ...]:
    """Those of a `spec.json`; none where it is damaged."""
    ports = spec.get("ports")
    if not isinstance(ports, list) or not all(type(port) is int and 0 < port < 2**16 for port in ports):
        return ()
    return tuple(ports)


def read_number(content: dict[str, Any], name: str) -> float | None:
    """A finite number."""
    number = content.get(name)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    try:
        number = float(number)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def read_json(file: Path) -> dict[str, Any]:
    """A JSON file's content; empty where there is none, and where it is damaged."""
    try:
        return _mapping(_bytes(file, LONGEST))
    except FileNotFoundError:
        return {}


def printable(text: str) -> str:
    """A sentence that can be shown: what cannot be printed is left out, and what is too long."""
    text = _UNPRINTABLE.sub(" ", text).strip()
    return text if len(text) <= _SAID else f"{text[: _SAID - 1]}…"


def _bytes(file: Path, limit: int) -> bytes:
    """Nothing, where something else is in its place."""
    if not stat.S_ISREG(os.stat(file).st_mode):
        return b""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as content:
        return content.read(limit)


def _mapping(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _instant(value: object) -> float | None:
    """Seconds since 1970; what has happened did not happen later than now."""
    number = read_number({"at": value}, "at")
    return None if number is None or number < 0 else min(number, time.time())


def _is_exit_code(code: object) -> bool:
    return type(code) is int and -256 < code < 256
