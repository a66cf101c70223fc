"""The files that a job leaves in its output (or checkpoint) folder, without ever leaving that folder.

The job made what is in there, so every part of a path is opened by itself and never through a link; what is not a
file (a pipe would hold its reader for ever) is not opened at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from scheduler.engines.files import FileInfo, Reader
from scheduler.errors import Invalid, NotFound, RunaiError, shortage

MOST = 10_000
"""How many files are listed at most."""

LOOKED, DEEPEST = 100_000, 64
"""Among how many entries, and how many folders deep."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITTEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_job(job: str) -> bool:
    """Whether this can be a job's id, and so the name of a folder."""
    return _JOB.fullmatch(job) is not None


def listing(folder: Path) -> tuple[FileInfo, ...]:
    """The files below a folder, by path: those in it, then those a folder deeper, and so on within bounds. A name that
    is not UTF-8 is left out, since no path could say it."""
    found: list[FileInfo] = []
    looked = 0
    folders: deque[list[str]] = deque([[]])
    while folders and looked < LOOKED and len(found) < MOST:
        above = folders.popleft()
        with contextlib.suppress(OSError), _folder_of(folder, [*above, ""]) as here, os.scandir(here) as entries:
            for entry in entries:
                looked += 1
                if looked > LOOKED:
                    break
                if not _is_utf8(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if len(above) < DEEPEST:
                        folders.append([*above, entry.name])
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):  # it is gone again
                        about = entry.stat(follow_symlinks=False)
                        found.append(FileInfo("/".join([*above, entry.name]), about.st_size, about.st_mtime))
    return tuple(sorted(found[:MOST], key=lambda file: file.path))


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_file(folder: Path, path: str) -> BinaryIO:
    """Open a file below a folder for reading. Raises `NotFound`."""
    try:
        parts = parts_of(path)
        with _folder_of(folder, parts) as here:
            descriptor = os.open(parts[-1], _FILE, dir_fd=here)
    except (OSError, Invalid):
        raise _missing(path) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _missing(path)
    return os.fdopen(descriptor, "rb")


def open_to_write(folder: Path, path: str) -> BinaryIO:
    """Open a file below a folder for reading and writing; it is made, with what it is in. Raises `Invalid`."""
    parts = parts_of(path)
    try:
        with _folder_of(folder, parts, make=True) as here:
            descriptor = os.open(parts[-1], _WRITTEN, 0o600, dir_fd=here)
    except OSError as error:
        raise _unusable(path, error) from error
    return os.fdopen(descriptor, "r+b", buffering=0)


def put(folder: Path, path: str, file: Path) -> None:
    """Move a file to a path below a folder, durably. Raises `Invalid`."""
    parts = parts_of(path)
    try:
        with file.open("rb") as content:
            os.fsync(content.fileno())
        with _folder_of(folder, parts, make=True) as here:
            os.rename(file, parts[-1], dst_dir_fd=here)
            os.fsync(here)
    except OSError as error:
        raise _unusable(path, error) from error


def remove(folder: Path, path: str) -> None:
    """Delete a file below a folder; nothing, where it is not there."""
    parts = parts_of(path)
    with contextlib.suppress(OSError), _folder_of(folder, parts) as here:
        os.unlink(parts[-1], dir_fd=here)


def parts_of(path: str) -> list[str]:
    """The parts of a path below a folder. Raises `Invalid` for one that may lead elsewhere."""
    parts = path.split("/")
    if any(part in ("", os.curdir, os.pardir) or "\0" in part for part in parts):
        raise Invalid(f"{path!r} is not a path below the job's folder.", field="path")
    return parts


@contextlib.contextmanager
def _folder_of(folder: Path, parts: list[str], *, make: bool = False) -> Iterator[int]:
    """The folder that the last of `parts` is in, opened a part at a time."""
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    here = os.open(folder, _FOLDER)
    try:
        for part in parts[:-1]:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=here)
            below = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def tail(folder: Path, path: str, size: int) -> bytes:
    """The last bytes of a file below a folder; empty where it cannot be read."""
    try:
        with open_file(folder, path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size)
    except (NotFound, OSError):
        return b""


def write_whole(file: Path, content: bytes) -> None:
    """Write a file that is seen whole or not at all."""
    beside = file.with_name(f"{file.name}.tmp")
    beside.write_bytes(content)
    os.replace(beside, file)


def _unusable(path: str, error: OSError) -> RunaiError:
    return shortage(error) or Invalid(f"{path!r} cannot be written ({error.strerror}).", field="path")


def _missing(path: str) -> NotFound:
    return NotFound(f"The job has no output file {path!r}.")


class OpenFile(Reader):
    """One that was opened by `open_file`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size

    async def read(self, limit: int) -> bytes:
        return await asyncio.to_thread(self._file.read, limit)

    async def close(self) -> None:
        await asyncio.to_thread(self._file.close)


def size_of(log: Path) -> int:
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def read_part(log: Path, offset: int, limit: int) -> bytes:
    """Empty where there is no such file."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return part(descriptor, offset, limit)
    finally:
        os.close(descriptor)


def part(descriptor: int, offset: int, limit: int) -> bytes:
    """At most `limit` bytes of a file; none from an `offset` on that is behind its end, and be it one that no file can
    have."""
    return os.pread(descriptor, limit, offset) if offset < os.fstat(descriptor).st_size else b""
