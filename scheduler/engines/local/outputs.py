"""The files that a job leaves in its output (or checkpoint) folder, without ever leaving that folder.

The job made what is in there, so every part of a path is opened by itself and never through a link; what is not a
file (a pipe would hold its reader for ever) is not opened at all.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from scheduler.engines.files import FileInfo
from scheduler.errors import NotFound

MOST = 10_000
"""How many files are listed at most."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def listing(folder: Path) -> tuple[FileInfo, ...]:
    """The files below a folder, by path."""
    found: list[FileInfo] = []
    if not os.path.isdir(folder):
        return ()
    for where, _, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        below = os.path.relpath(where, folder)
        for name in names:
            try:
                about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(about.st_mode):
                path = name if below == os.curdir else f"{below}/{name}"
                found.append(FileInfo(path, about.st_size, about.st_mtime))
        if len(found) >= MOST:
            break
    return tuple(sorted(found[:MOST], key=lambda file: file.path))


def open_file(folder: Path, path: str) -> BinaryIO:
    """Open a file below a folder for reading. Raises `NotFound`."""
    parts = path.split("/")
    if any(part in ("", os.curdir, os.pardir) or "\0" in part for part in parts):
        raise _missing(path)
    try:
        here = os.open(folder, _FOLDER)
        try:
            for part in parts[:-1]:
                below = os.open(part, _FOLDER, dir_fd=here)
                os.close(here)
                here = below
            descriptor = os.open(parts[-1], _FILE, dir_fd=here)
        finally:
            os.close(here)
    except OSError:
        raise _missing(path) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _missing(path)
    return os.fdopen(descriptor, "rb")


def tail(folder: Path, path: str, size: int) -> bytes:
    """The last bytes of a file below a folder; empty where it cannot be read."""
    try:
        with open_file(folder, path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size)
    except (NotFound, OSError):
        return b""


def _missing(path: str) -> NotFound:
    return NotFound(f"The job has no output file {path!r}.")
