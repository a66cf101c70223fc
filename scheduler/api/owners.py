"""The uploader of each bundle or blob, so that nobody can use another user's upload by knowing its digest, and the disk
space of each user."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from scheduler.errors import NotFound, TooMany
from scheduler.files.bundle import in_words
from scheduler.files.durable import sync


class Owners:
    """An empty file `<user>/<digest>` for each upload, with the user's name hashed. `size` returns the size of a
    bundle."""

    def __init__(self, folder: Path, size: Callable[[str], int]) -> None:
        self._folder = folder
        self._size = size
        self._used: dict[str, int] = {}
        self._expected: Counter[str] = Counter()
        self._known: set[tuple[str, str]] = set()
        self._changing = threading.Lock()

    def has(self, user: str, digest: str) -> bool:
        known = (user, digest) in self._known or self._mark(user, digest).is_file()
        if known:
            self._known.add((user, digest))
        return known

    def expect(self, user: str, size: int, most: int | None) -> None:
        """Count what a user is about to upload, in bytes, until `received`. Raises `TooMany` where that would exceed
        `most`."""
        with self._changing:
            used = self._use(user) + self._expected[user]
            if most is not None and used + size > most:
                raise TooMany(
                    f"You may upload {in_words(most)} for your jobs and have uploaded {in_words(used)}. Delete jobs "
                    "whose files you no longer need; files that no job needs are deleted after a day."
                )
            self._expected[user] += size

    def received(self, user: str, size: int) -> None:
        """The expected upload has been added or has failed."""
        with self._changing:
            self._expected[user] -= size
            if not self._expected[user]:
                del self._expected[user]

    def add(self, user: str, digest: str) -> None:
        """Record an upload; durable when it returns."""
        mark = self._mark(user, digest)
        with self._changing:
            if mark.is_file():
                return
            used = self._use(user)
            mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._used[user] = used + self._size(digest)
        for folder in (mark.parent, self._folder, self._folder.parent):
            sync(folder)

    def sweep(self, exists: Callable[[str], bool]) -> None:
        """Forget the uploaders of blobs that no longer exist."""
        for mark in self._folder.glob("*/*"):
            with self._changing:
                if not exists(mark.name):
                    mark.unlink()
        with self._changing:
            self._known.clear()
            self._used.clear()

    def _use(self, user: str) -> int:
        """The bytes of a user's uploads that still exist."""
        used = self._used.get(user)
        if used is None:
            used = self._used[user] = sum(map(self._size_now, self._of(user).glob("*")))
        return used

    def _size_now(self, mark: Path) -> int:
        try:
            return self._size(mark.name)
        except NotFound:
            return 0

    def _of(self, user: str) -> Path:
        return self._folder / hashlib.sha256(user.encode()).hexdigest()[:32]

    def _mark(self, user: str, digest: str) -> Path:
        return self._of(user) / digest
