"""Deletes a folder of a job, however deep it is and whatever names it contains."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> None:
    """Delete a folder and everything below it, without following links. Raises `OSError` where something remains.

    Deeper folders are first moved to the top, so that paths stay short and two descriptors are enough.
    """
    fresh = map(f"{secrets.token_hex(16)}.{{}}".format, itertools.count())
    with _opened(str(folder)) as top:
        while names := _folders_left(top):
            for name in names:
                with _opened(name, top) as here:
                    for below in _folders_left(here):
                        _move(below, here, next(fresh), top)
                os.rmdir(name, dir_fd=top)
    os.rmdir(folder)


def _folders_left(here: int) -> list[str]:
    """Delete everything in a folder except its folders; returns their names."""
    with os.scandir(here) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=here)
    return [name for name, is_folder in found if is_folder]


def _move(name: str, here: int, new: str, top: int) -> None:
    try:
        os.rename(name, new, src_dir_fd=here, dst_dir_fd=top)
    except PermissionError:
        _unlock(name, here)
        os.rename(name, new, src_dir_fd=here, dst_dir_fd=top)


@contextmanager
def _opened(name: str, here: int | None = None) -> Iterator[int]:
    """Open a folder, so that its content can be deleted."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=here)
    except PermissionError:
        _unlock(name, here)
        descriptor = os.open(name, _FOLDER, dir_fd=here)
    try:
        if os.geteuid() != 0:
            os.fchmod(descriptor, 0o700)
        yield descriptor
    finally:
        os.close(descriptor)


def _unlock(name: str, here: int | None) -> None:
    """Make a folder writable again that a job has closed. Root needs no permission, and must not change what a job may
    have linked to."""
    if os.geteuid() != 0:
        os.chmod(name, 0o700, dir_fd=here)
