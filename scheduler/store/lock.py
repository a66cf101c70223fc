"""A state belongs to one scheduler at a time: a lock that goes with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from scheduler.errors import Conflict


class StateLock:
    """A lock on a file, held from `take` until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> None:
        """Raises `Conflict` where another scheduler holds it."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).decode(errors="replace").strip()
            os.close(file)
            raise Conflict(
                f"Another scheduler{f' (process {holder})' if holder else ''} uses {self.path.parent}; "
                "stop it first, or name another folder for the state."
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
