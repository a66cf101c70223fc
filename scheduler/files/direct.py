"""Writes a large file without the page cache (`O_DIRECT`), where the file system supports it: it is read at most once,
and evicting other pages for it takes longer than the disk does. Short pieces, and the last one, are written normally.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading

BLOCK = 1024 * 1024
_DIRECT: int = getattr(os, "O_DIRECT", 0)


class DirectFile:
    """Owns a descriptor that is open for writing. Threads may share it: none writes after another has closed it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._block = mmap.mmap(-1, BLOCK)  # page-aligned, as the disk requires
        self._filled = 0
        self._direct = False
        self._open = True
        self._lock = threading.Lock()

    def write(self, data: bytes | bytearray) -> None:
        """Raises `ValueError` once it is closed."""
        left = memoryview(data)
        with self._lock:
            while left:
                if not self._open:
                    raise ValueError("This file is closed.")
                count = min(BLOCK - self._filled, len(left))
                self._block[self._filled : self._filled + count] = left[:count]
                self._filled += count
                left = left[count:]
                if self._filled == BLOCK:
                    self._go_direct(True)
                    self._flush()

    def close_durably(self) -> None:
        """Sync the file to the disk and close it."""
        with self._lock:
            self._go_direct(False)
            self._flush()
            os.fsync(self._descriptor)
        self.close()

    def close(self) -> None:
        """Close it; does nothing if it is already closed."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._descriptor)

    def _flush(self) -> None:
        written = 0
        while written < self._filled:
            with memoryview(self._block) as block, block[written : self._filled] as rest:
                try:
                    written += os.write(self._descriptor, rest)
                except OSError as error:
                    if error.errno != errno.EINVAL or not self._direct:
                        raise
                    self._go_direct(False)  # not supported by this file system, or not at this offset
        self._filled = 0

    def _go_direct(self, wanted: bool) -> None:
        if not _DIRECT or wanted == self._direct:
            return
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | _DIRECT if wanted else flags & ~_DIRECT)
        except OSError:
            return  # such as a file system in memory
        self._direct = wanted
