"""The history of GPUs: a folder for each GPU, with a file for each resolution.

What must hold:
- A file is a ring of records of fixed size: a record has the slot of its time and replaces the one that was written
  there a whole round before. No file ever grows beyond its slots, and nothing has to be deleted.
- A record that a crash has left incomplete counts as not measured; those beside it are read.
- A full disk stops the history, not the scheduler.

The files are not forced to the disk: a power cut loses at most the last half minute.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from scheduler.telemetry.inventory import History
from scheduler.telemetry.records import LEVELS, SIZE, Level, Span, level_for, packed, thinned, unpacked

BYTES_PER_GPU = sum(level.slots for level in LEVELS) * SIZE
"""The most that the history of a GPU takes, in bytes."""


class HistoryFiles:
    """The history of the GPUs in a folder. `add` belongs to one thread; others may `read` meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[tuple[str, Level], Span] = {}
        self._waiting: dict[tuple[str, Level, int], Span] | None = None

    def discard_old(self, now: float) -> None:
        """Delete the history of GPUs that have not been seen for as long as it is kept."""
        with suppress(OSError):
            for gpu in self._folder.iterdir():
                latest = max((each.stat().st_mtime for each in gpu.iterdir()), default=0.0)
                if now - latest > LEVELS[-1].kept:
                    shutil.rmtree(gpu, ignore_errors=True)

    def add(self, device: str, span: Span) -> None:
        """Add a sample at its time. Raises `OSError` where it cannot be written."""
        for level in LEVELS:
            start = level.start(span.start)
            known = self._open.get((device, level))
            if known is None or known.start != start:
                waiting = None if self._waiting is None else self._waiting.get((device, level, start))
                known = waiting or self._stored(device, level, start) or Span(start)
            known = self._open[device, level] = known + span
            if self._waiting is None:
                self._store(device, level, known)
            else:
                self._waiting[device, level, start] = known

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write each record once at the end, however many samples are added to it. Raises `OSError` then."""
        waiting = self._waiting = {}
        try:
            yield
        finally:
            self._waiting = None
        for (device, level, _), span in waiting.items():
            self._store(device, level, span)

    def read(self, device: str, since: float, until: float, now: float, points: int) -> History:
        """The spans from `since` until `until`, at most about `points`."""
        level = level_for(since, until, now, points)
        first = level.start(max(since, now - level.kept + level.step))
        last = level.start(min(until, now))
        step = level.step * max(1, -(-(last - first) // (level.step * points)))
        return History(step, tuple(thinned(self._slots(device, level, first, last), first, step)))

    def _slots(self, device: str, level: Level, first: int, last: int) -> list[Span]:
        count = (last - first) // level.step + 1
        if count <= 0:
            return []
        slot = first // level.step % level.slots
        before_end = min(count, level.slots - slot)
        try:
            with self._path(device, level).open("rb") as file:
                file.seek(slot * SIZE)
                text = file.read(before_end * SIZE).ljust(before_end * SIZE, b"\0")
                file.seek(0)
                text += file.read((count - before_end) * SIZE)
        except FileNotFoundError:
            return []
        found = (
            unpacked(text[n * SIZE : (n + 1) * SIZE], first + n * level.step) for n in range(min(count, level.slots))
        )
        return [span for span in found if span is not None]

    def _stored(self, device: str, level: Level, start: int) -> Span | None:
        return next(iter(self._slots(device, level, start, start)), None)

    def _store(self, device: str, level: Level, span: Span) -> None:
        path = self._path(device, level)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, packed(span), span.start // level.step % level.slots * SIZE)
        finally:
            os.close(file)

    def _path(self, device: str, level: Level) -> Path:
        return self._folder / quote(device, safe="").replace(".", "%2E") / f"{level.step}s"
