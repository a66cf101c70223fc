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
from collections.abc import Iterator
from pathlib import Path

_IN_MODIFY = 0x2
_EVENT = struct.Struct("iIII")
_LOOK_AGAIN = 0.1


class Growth:
    """Wakes the tasks that wait for a file to be written to."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._inotify = -1
        self._watches: dict[int, set[asyncio.Event]] = {}

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
        for events in self._watches.values():
            for event in events:
                event.set()

    @contextlib.contextmanager
    def of(self, file: Path) -> Iterator[asyncio.Event]:
        """An event that is set when the file is written to from now on (or, without inotify, might have been)."""
        event = asyncio.Event()
        watch = self._libc.inotify_add_watch(self._inotify, os.fsencode(file), _IN_MODIFY) if self._libc else -1
        if watch < 0:
            look = asyncio.get_running_loop().call_later(_LOOK_AGAIN, event.set)
            try:
                yield event
            finally:
                look.cancel()
            return
        self._watches.setdefault(watch, set()).add(event)
        try:
            yield event
        finally:
            self._watches[watch].discard(event)
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
            for event in self._watches.get(watch, ()):
                event.set()
