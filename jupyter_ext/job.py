"""The interface of code in a job: `from jupyter_ext import job`.

It is the same in a cell, a script and a pod, and needs only the standard library. Outside a job everything here is
harmless: nothing is resumed or stopped, and nothing is written.
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
    "should_save",
    "should_stop",
    "world_size",
]

id: str | None
"""The job's id; `None` outside a job."""
attempt: int
"""The number of this run of the job, from 1."""
resumed: bool
"""Whether the job has run before and resumes now."""
rank: int
"""The number of this worker, from 0."""
world_size: int
"""The current number of workers."""

parameters: dict[str, Any]
"""The values of a sweep for this job, by name."""

METRICS = "metrics.jsonl"

_stop = threading.Event()
_listening = False
_saved_for = 0
"""When the latest request to save was made that `should_save` has answered, in nanoseconds."""


def __getattr__(name: str) -> Any:
    """The attributes above are read from the environment on access."""
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

    The first call starts to listen; a worker that never calls it is ended by SIGTERM like any process. So call it
    early, in the main thread, and once a step.
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


def should_save() -> bool:
    """Whether the scheduler has asked this worker to save its state and keep running: it will probably be stopped soon,
    because a guarantee rises by calendar.

    True once for each request, so call it once a step, and save where it is true.
    """
    global _saved_for
    try:
        asked = os.stat(os.environ["RUNAI_SAVE_REQUEST"]).st_mtime_ns
    except (KeyError, OSError):
        return False
    before, _saved_for = _saved_for, asked
    return asked != before


def checkpoint(state: Any, name: str = "checkpoint") -> bool:
    """Save `state` so that the next attempt finds it with `restore()`; False outside a job.

    The file is written atomically: a kill during writing leaves the previous one. With several workers, save from rank
    0, or give each its own `name`.
    """
    file = _checkpoint_file(name)
    if file is None:
        return False
    with _whole(file) as out:
        pickle.dump(state, out, protocol=pickle.HIGHEST_PROTOCOL)
    return True


def restore(default: Any = None, name: str = "checkpoint") -> Any:
    """The latest state that `checkpoint()` saved, in this attempt or an earlier one; `default` where there is none."""
    file = _checkpoint_file(name)
    if file is None or not file.exists():
        return default
    with file.open("rb") as saved:
        return pickle.load(saved)


def report(step: int | None = None, total: int | None = None, **metrics: float | int | str | bool | None) -> None:
    """Report progress and metrics: `report(step=120, total=5000, loss=0.18)`. Numbers of any library are accepted;
    outside a job it does nothing. `total` is the last step: with it the job's card shows the progress and the remaining
    time.

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
    """Write a file that gets its name only when it is completely on the disk."""
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
