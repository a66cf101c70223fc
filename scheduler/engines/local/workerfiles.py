"""Reading a worker's files, whatever they contain.

A power cut leaves files empty or truncated, a disk fault garbles them, and a job that runs as the scheduler's user can
write anything. What must hold: nothing here raises anything but `OSError`, and no impossible number is returned.
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
"""Bytes of a file that are read: more than any environment can have."""

_CLAIM = re.compile(rb"([0-9]{1,9})(?: ([0-9A-Fa-f-]{36})?)?\n?")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]+")
_SAID = 200


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim on a worker: by which process (0: it must never start), and in which boot of the machine (empty:
    unknown)."""

    pid: int
    boot: str

    @property
    def of_earlier_boot(self) -> bool:
        """Whether it was made before the last boot."""
        return self.boot not in ("", supervisor.boot())


@dataclass(frozen=True, slots=True)
class End:
    """How a worker ended; `stopped`: whether it had been told to stop, if that is recorded."""

    at: float
    exit_code: int | None
    reason: str
    stopped: bool | None


class Damaged(Enum):
    """The value of a file that cannot be parsed. It is false."""

    DAMAGED = auto()

    def __bool__(self) -> Literal[False]:
        return False


DAMAGED: Final = Damaged.DAMAGED


def read_claim(file: Path) -> Claim | Literal[Damaged.DAMAGED] | None:
    """The claim on a worker; `None` if there is none."""
    try:
        found = _CLAIM.fullmatch(_bytes(file, 128))
    except FileNotFoundError:
        return None
    return Claim(int(found[1]), (found[2] or b"").decode()) if found else DAMAGED


def read_end(file: Path) -> End | Literal[Damaged.DAMAGED] | None:
    """How a worker ended; `None` if that is not recorded."""
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
    """When a worker was started, by its `status.json`, or by that file's time if it is damaged; `None` without one."""
    try:
        made, content = file.stat().st_mtime, _mapping(_bytes(file, LONGEST))
    except FileNotFoundError:
        return None
    started = _instant(content.get("started"))
    return _instant(made) if started is None else started


def read_ports(spec: dict[str, Any]) -> tuple[int, ...]:
    """The ports of a `spec.json`; none if it is damaged."""
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
    """A JSON file's content; empty if it is missing or damaged."""
    try:
        return _mapping(_bytes(file, LONGEST))
    except FileNotFoundError:
        return {}


def printable(text: str) -> str:
    """A sentence that can be shown: without unprintable characters, and truncated."""
    text = _UNPRINTABLE.sub(" ", text).strip()
    return text if len(text) <= _SAID else f"{text[: _SAID - 1]}…"


def _bytes(file: Path, limit: int) -> bytes:
    """The start of a file; empty if it is not a regular file."""
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
    """A time in seconds since 1970, not later than now."""
    number = read_number({"at": value}, "at")
    return None if number is None or number < 0 else min(number, time.time())


def _is_exit_code(code: object) -> bool:
    return type(code) is int and -256 < code < 256
