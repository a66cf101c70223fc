"""Whether the disk can be written: only a write shows that (a quota, a file system that became read-only)."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scheduler.errors import Unavailable, shortage

BELIEVED = 1.0
"""For how many seconds a result is reused, so that frequent checks do not keep the disk busy."""

ENOUGH = 64 * 1024
"""Bytes that must be free: enough for a few changes."""


class Disk:
    """The disk of one folder."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._looked: float | None = None
        self._trouble: str | None = None
        self._looking = asyncio.Lock()

    async def check(self) -> None:
        """Raises `Unavailable` where nothing can be written."""
        async with self._looking:
            if self._looked is None or self._clock() - self._looked >= BELIEVED:
                self._trouble = await asyncio.to_thread(self._look)
                self._looked = self._clock()
        if self._trouble is not None:
            raise Unavailable(self._trouble)

    def _look(self) -> str | None:
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                file.write(bytes(ENOUGH))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            short = shortage(error)
            return short.sentence if short else f"{self._folder} cannot be written to ({error.strerror})."
        return None
