"""When a log had which length: a small file beside it, from which the time of each line follows.

A worker writes to its log itself, so nobody sees its lines pass. What must hold: lengths and times never decrease, and
the file stays small however long a worker prints.
"""

from __future__ import annotations

import contextlib
import os

SECONDS = 1.0
"""How precise the times are at first."""

MOST = 2**24
"""The most bytes of such a file that are read."""

_MANY = 3600
"""Records that are a second apart; later ones are further apart, so that a year of output has fewer than 500,000."""


class LogTimesFile:
    """Writes such a file. `latest` is the last length with its time, which may not have been written yet."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._written, self._records, self._at = 0, 0, float("-inf")
        self.latest = (0, 0.0)

    def look(self, size: int, now: float, *, last: bool = False) -> None:
        """The log has `size` bytes at `now`, in seconds since the epoch. `last`: it will not grow any more."""
        if size > self.latest[0]:
            self.latest = (size, now)
        apart = SECONDS * max(1.0, self._records / _MANY)
        if self.latest[0] == self._written or (abs(now - self._at) < apart and not last):
            return
        with contextlib.suppress(OSError):  # lines without times are better than no worker
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, b"%d %.3f\n" % self.latest)
            finally:
                os.close(descriptor)
        self._written, self._records, self._at = self.latest[0], self._records + 1, now


def times_of(written: bytes, *later: tuple[int, float]) -> list[tuple[int, float]]:
    """The lengths in bytes and their times, both ascending, of what was written to such a file and what came later."""
    found: list[tuple[int, float]] = []
    for size, at in [*map(_record, written.splitlines()), *later]:
        longest, latest = found[-1] if found else (0, at)
        if size > longest:
            found.append((size, max(at, latest)))
    return found


def _record(line: bytes) -> tuple[int, float]:
    size, _, at = line.partition(b" ")
    try:
        return int(size), float(at)
    except ValueError:  # cut off by a crash
        return 0, 0.0
