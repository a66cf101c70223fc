"""Writing a large file past the page cache, where the file system can: it is read once if ever, and evicting others for
it there takes longer than the disk does. What is short, or the last piece, is written as any file is.
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
    """Owns a descriptor that is open for writing. Threads may share it: none writes to what another has closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._block = mmap.mmap(-1, BLOCK)  # lies at a page's boundary, as the disk wants it
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
        """Bring all of it to the disk and close it."""
        with self._lock:
            self._go_direct(False)
            self._flush()
            os.fsync(self._descriptor)
        self.close()

    def close(self) -> None:
        """Harmless when it is closed already."""
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
                    self._go_direct(False)  # not this file system, or not from here on
        self._filled = 0

    def _go_direct(self, wanted: bool) -> None:
        if not _DIRECT or wanted == self._direct:
            return
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | _DIRECT if wanted else flags & ~_DIRECT)
        except OSError:
            return  # a file system in memory, say
        self._direct = wanted
