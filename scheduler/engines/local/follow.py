"""Notification that a file has grown: by inotify where available, else by polling.

Costs nothing while no file is followed or the followed files do not change.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_IN_MODIFY = 0x2
_EVENT = struct.Struct("iIII")
_LOOK_AGAIN, _LOOK_LATER = 0.1, 2.0


class Growth:
    """Wakes the tasks that wait for a file to be written to."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._inotify = -1
        self._watches: dict[int, set[Callable[[], None]]] = {}

    def open(self) -> None:
        if self._libc is not None:
            self._inotify = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._inotify >= 0:
            asyncio.get_running_loop().add_reader(self._inotify, self._read)

    def close(self) -> None:
        if self._inotify >= 0:
            asyncio.get_running_loop().remove_reader(self._inotify)
            os.close(self._inotify)
            self._inotify = -1
        for watching in self._watches.values():
            for written in watching:
                written()

    @contextlib.contextmanager
    def of(self, file: Path) -> Iterator[asyncio.Event]:
        """An event that is set when the file is written to from now on (or, without inotify, might have been)."""
        event = asyncio.Event()
        with self.on(file, event.set):
            yield event

    @contextlib.contextmanager
    def on(self, path: Path, written: Callable[[], None]) -> Iterator[None]:
        """Call `written` when a file, or a file in a folder, is written to from now on, and when it comes into being;
        without inotify, every now and then."""
        watch, pause, again = self._add(path, written), _LOOK_AGAIN, None
        if watch < 0:
            again = asyncio.get_running_loop().call_later(pause, lambda: look())

        def look() -> None:
            nonlocal watch, pause, again
            watch = self._add(path, written)
            if self._inotify >= 0:  # it does not exist yet, and may never
                pause = min(2 * pause, _LOOK_LATER)
            if watch < 0:
                again = asyncio.get_running_loop().call_later(pause, look)
            if watch >= 0 or self._inotify < 0:
                written()

        try:
            yield
        finally:
            if again is not None:
                again.cancel()
            self._remove(watch, written)

    def _add(self, path: Path, written: Callable[[], None]) -> int:
        """A watch; negative where that cannot be watched."""
        if self._libc is None or self._inotify < 0:
            return -1
        watch = int(self._libc.inotify_add_watch(self._inotify, os.fsencode(path), _IN_MODIFY))
        if watch >= 0:
            self._watches.setdefault(watch, set()).add(written)
        return watch

    def _remove(self, watch: int, written: Callable[[], None]) -> None:
        if watch in self._watches:
            self._watches[watch].discard(written)
            if not self._watches[watch]:
                del self._watches[watch]
                assert self._libc is not None
                self._libc.inotify_rm_watch(self._inotify, watch)

    def _read(self) -> None:
        try:
            data = os.read(self._inotify, 65536)
        except BlockingIOError:
            return
        while data:
            watch, _mask, _, length = _EVENT.unpack_from(data)
            data = data[_EVENT.size + length :]
            for written in list(self._watches.get(watch, ())):
                written()
