"""What code in a job may ask and tell: `from jupyter_ext import job`.

The same name in a cell, a script and a pod. It needs the standard library alone. Outside a job everything here is
harmless: nothing is resumed, nothing asks to stop, and what would be written is not.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import re
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any

__all__ = [
    "attempt",
    "checkpoint",
    "id",
    "parameters",
    "rank",
    "report",
    "restore",
    "resumed",
    "should_stop",
    "world_size",
]

id: str | None
"""The job's id; `None` outside a job."""
attempt: int
"""Which run of the job this is, from 1."""
resumed: bool
"""Whether the job has run before and goes on now."""
rank: int
"""Which worker of the job this is, from 0."""
world_size: int
"""How many workers the job has now."""

parameters: dict[str, Any]
"""The values that a sweep gives this job, by name."""

METRICS = "metrics.jsonl"

_stop = threading.Event()
_listening = False


def __getattr__(name: str) -> Any:
    """The facts about the job are read from the environment when they are asked for."""
    if name == "id":
        return os.environ.get("RUNAI_JOB_ID")
    if name == "resumed":
        return _number("RUNAI_ATTEMPT", 1) > 1
    if name in ("attempt", "world_size"):
        return _number(f"RUNAI_{name.upper()}", 1)
    if name == "parameters":
        return json.loads(os.environ.get("RUNAI_PARAMETERS", "{}"))
    if name == "rank":
        return _number("RUNAI_RANK", 0)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def should_stop() -> bool:
    """Whether the scheduler has asked this worker to save itself and end (SIGTERM).

    The first call starts to listen; a worker that never asks is ended by SIGTERM as any process is. So ask early,
    in the main thread, and once a step.
    """
    global _listening
    if not _listening and "RUNAI_JOB_ID" in os.environ:
        if threading.current_thread() is not threading.main_thread():
            return _stop.is_set()
        earlier = signal.getsignal(signal.SIGTERM)

        def asked(number: int, frame: FrameType | None) -> None:
            _stop.set()
            if callable(earlier):
                earlier(number, frame)

        signal.signal(signal.SIGTERM, asked)
        _listening = True
    return _stop.is_set()


def checkpoint(state: Any, name: str = "checkpoint") -> bool:
    """Save `state` so that the next attempt finds it with `restore()`; False outside a job.

    The file appears whole or not at all: a kill in the middle of writing leaves the one before. With several
    workers save from rank 0, or give each its own `name`.
    """
    file = _checkpoint_file(name)
    if file is None:
        return False
    with _whole(file) as out:
        pickle.dump(state, out, protocol=pickle.HIGHEST_PROTOCOL)
    return True


def restore(default: Any = None, name: str = "checkpoint") -> Any:
    """What `checkpoint()` saved last, in this attempt or an earlier one; `default` where there is none."""
    file = _checkpoint_file(name)
    if file is None or not file.exists():
        return default
    with file.open("rb") as saved:
        return pickle.load(saved)


def report(step: int | None = None, total: int | None = None, **metrics: float | int | str | bool | None) -> None:
    """Tell how the job goes: `report(step=120, total=5000, loss=0.18)`. Numbers of any library will do; outside a job
    it does nothing. `total` is the last step there will be: with it the job's card shows how far it is and how long it
    takes.

    One line of JSON is added to `metrics.jsonl` in the job's output folder, with the time, the attempt and the rank.
    """
    folder = os.environ.get("RUNAI_OUTPUT_DIR")
    if not folder or "RUNAI_JOB_ID" not in os.environ:
        return
    line: dict[str, Any] = {
        "time": time.time(),
        "attempt": _number("RUNAI_ATTEMPT", 1),
        "rank": _number("RUNAI_RANK", 0),
    }
    if step is not None:
        line["step"] = int(step)
    if total is not None:
        line["total"] = int(total)
    line.update({name: _plain(value) for name, value in metrics.items()})
    data = (json.dumps(line, allow_nan=False) + "\n").encode()
    # One write to a file opened for appending: lines of several workers never mix.
    handle = os.open(Path(folder) / METRICS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)


def _plain(value: Any) -> float | int | str | bool | None:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _number(variable: str, default: int) -> int:
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return default


def _checkpoint_file(name: str) -> Path | None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError(f"A checkpoint is named by letters, digits and . _ - (at most 100), not {name!r}.")
    folder = os.environ.get("RUNAI_CHECKPOINT_DIR")
    return Path(folder) / f"{name}.pickle" if folder and "RUNAI_JOB_ID" in os.environ else None


@contextlib.contextmanager
def _whole(file: Path) -> Iterator[IO[bytes]]:
    """Write a file that takes its name only when all of it is on the disk."""
    handle, unfinished = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(unfinished, file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
