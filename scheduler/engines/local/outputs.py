"""The files that a job leaves in its output (or checkpoint) folder, without ever leaving that folder.

The job made what is in there, so every part of a path is opened by itself and never through a link; what is not a
file (a pipe would hold its reader for ever) is not opened at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from scheduler.engines.files import FileInfo
from scheduler.errors import NotFound

MOST = 10_000
"""How many files are listed at most."""

MOST_ENTRIES = 100_000
"""How many files, folders and other things are looked at for that."""

DEEPEST = 64
"""Files in more folders than these, one in the other, are left out."""

_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BYTE = re.compile(rb"\\x([89a-f][0-9a-f])")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Missing(Exception):
    """There is nothing that may be opened."""


def listing(folder: Path) -> tuple[FileInfo, ...]:
    """The files below a folder, by path; those in few folders first, where there are too many.

    What cannot be looked at is left out. A name that is not UTF-8 is spelled so that it is (`caf\\xe9.txt`).
    """
    found: list[FileInfo] = []
    looked_at = 0
    ahead: deque[tuple[str, ...]] = deque([()])
    while ahead:
        parts = ahead.popleft()
        for name, about in _entries(folder, parts):
            looked_at += 1
            if len(found) == MOST or looked_at > MOST_ENTRIES:
                ahead.clear()
                break
            if stat.S_ISDIR(about.st_mode) and len(parts) < DEEPEST:
                ahead.append((*parts, name))
            elif stat.S_ISREG(about.st_mode):
                path = _spelled("/".join((*parts, name)))
                found.append(FileInfo(path, about.st_size, about.st_mtime))
    return tuple(sorted(found, key=lambda file: file.path))


def _entries(folder: Path, parts: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
    with contextlib.ExitStack() as opened:
        try:
            entries = opened.enter_context(os.scandir(opened.enter_context(_opened(folder, parts))))
        except _Missing:
            return
        for entry in entries:
            with contextlib.suppress(OSError):
                yield entry.name, entry.stat(follow_symlinks=False)


def open_file(folder: Path, path: str) -> BinaryIO:
    """Open a file below a folder for reading, by its path as `listing` tells it.

    Raises `NotFound`, and `OSError` where the machine has run out of something.
    """
    for each in dict.fromkeys((path, _meant(path))):
        *parts, name = each.split("/")
        with contextlib.suppress(_Missing), _opened(folder, parts) as here:
            descriptor = _open(name, _FILE, here)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.fdopen(descriptor, "rb")
            os.close(descriptor)
    raise NotFound(f"The job has no output file {path!r}.")


@contextlib.contextmanager
def _opened(folder: Path, parts: Sequence[str]) -> Iterator[int]:
    """A folder below a folder, with no link on the way."""
    here = _open(folder, _FOLDER)
    try:
        for part in parts:
            below = _open(part, _FOLDER, here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _open(name: Path | str, flags: int, here: int | None = None) -> int:
    if name in ("", os.curdir, os.pardir):
        raise _Missing
    try:
        return os.open(name, flags, dir_fd=here)
    except ValueError:  # it has a zero byte, or half a character
        raise _Missing from None
    except OSError as error:
        if error.errno in _SHORT:
            raise
        raise _Missing from None


def _spelled(path: str) -> str:
    """A path as text that can be sent: a byte that is not UTF-8 as `\\xe9`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _meant(path: str) -> str:
    """What `_spelled` was given."""
    try:
        spelled = os.fsencode(path)
    except UnicodeEncodeError:  # half a character: no file has that in its name
        return path
    return os.fsdecode(_BYTE.sub(lambda byte: bytes([int(byte[1], 16)]), spelled))


def tail(folder: Path, path: str, size: int) -> bytes:
    """The last bytes of a file below a folder; empty where it cannot be read."""
    try:
        with open_file(folder, path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size)
    except (NotFound, OSError):
        return b""
