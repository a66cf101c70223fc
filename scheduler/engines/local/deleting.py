"""Deleting a folder that a job made: however deep, whatever the names, and whatever the job took away from itself.

What must hold:
- It ends, with a bounded number of open files and no recursion. What cannot be deleted (an immutable file, a mount) does not
  keep the rest.
- Nothing outside is touched: no link is followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from pathlib import Path

MOST_ROUNDS = 100_000
"""Folders as deep as this are deleted at once; what is deeper remains for the next time."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete(folder: Path) -> None:
    """Delete a folder and all in it. Raises `OSError` where something is left; harmless where there is no such folder.

    Each folder is emptied from the top one, into which the folders that it holds are moved first: so none is ever deeper
    than one level, and no path is longer than the system allows.
    """
    try:
        if not _is_folder(None, folder):
            os.unlink(folder)
            return
        _allow(folder, None)
        top = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return
    failed: OSError | None = None
    stuck = set[str]()
    try:
        for _ in range(MOST_ROUNDS):
            names = [name for name in os.listdir(top) if name not in stuck]
            if not names:
                break
            for name in names:
                try:
                    _delete_entry(top, name)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    failed = error
                    stuck.add(name)
    finally:
        os.close(top)
    if failed is not None:
        raise failed
    with contextlib.suppress(FileNotFoundError):  # somebody else was at it, too
        os.rmdir(folder)


def _delete_entry(top: int, name: str) -> None:
    if not _is_folder(top, name):
        os.unlink(name, dir_fd=top)
        return
    _allow(name, top)
    here = os.open(name, _FOLDER, dir_fd=top)
    failed: OSError | None = None
    try:
        for each in os.listdir(here):
            try:
                if _is_folder(here, each):
                    _allow(each, here)  # a folder that cannot be written to cannot be moved either
                    os.rename(each, uuid.uuid4().hex, src_dir_fd=here, dst_dir_fd=top)
                else:
                    os.unlink(each, dir_fd=here)
            except FileNotFoundError:
                continue
            except OSError as error:
                failed = error
    finally:
        os.close(here)
    if failed is not None:
        raise failed
    os.rmdir(name, dir_fd=top)


def _is_folder(here: int | None, name: Path | str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)


def _allow(folder: Path | str, here: int | None) -> None:
    """Let us change what is in a folder. Root needs no leave, and changes nothing that a job may have linked to."""
    if os.geteuid() != 0:
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700, dir_fd=here)
