"""Who has put which bundle or blob, so that nobody can use what somebody else has put by knowing its digest."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from scheduler.files.blobs import sync


class Owners:
    """Who has put which bundle: an empty file `<user>/<digest>` each, with the user's name hashed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: set[tuple[str, str]] = set()
        self._changing = threading.Lock()

    def has(self, user: str, digest: str) -> bool:
        known = (user, digest) in self._known or self._mark(user, digest).is_file()
        if known:
            self._known.add((user, digest))
        return known

    def add(self, user: str, digest: str) -> None:
        """Durable when it returns."""
        mark = self._mark(user, digest)
        with self._changing:
            if mark.is_file():
                return
            mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for folder in (mark.parent, self._folder, self._folder.parent):
            sync(folder)

    def sweep(self, exists: Callable[[str], bool]) -> None:
        """Forget who has put what is no longer there."""
        for mark in self._folder.glob("*/*"):
            with self._changing:
                if not exists(mark.name):
                    mark.unlink()
        self._known.clear()

    def _mark(self, user: str, digest: str) -> Path:
        return self._folder / hashlib.sha256(user.encode()).hexdigest()[:32] / digest
