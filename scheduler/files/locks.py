"""A lock on a file that is released with its process, however that ends. The file names the process that holds it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Held(Exception):
    """Another process holds the lock: `holder`, if the file names it."""

    def __init__(self, holder: int | None) -> None:
        super().__init__(holder)
        self.holder = holder

    @property
    def named(self) -> str:
        """` (process 12)`, for a sentence; empty where it is not known."""
        return "" if self.holder is None else f" (process {self.holder})"


class FileLock:
    """Held from `take` until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> None:
        """Raises `Held` where another process holds it."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            os.close(file)
            raise Held(holder) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def holder_of(path: Path) -> int | None:
    """The process that holds a lock now (0: unknown); `None` where none does."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(file) or 0
    finally:
        os.close(file)
    return None


def _holder(file: int) -> int | None:
    written = os.pread(file, 32, 0).strip()
    return int(written) if written.isdigit() else None
