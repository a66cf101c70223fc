"""Deleting the folder of a job that has ended: out of sight at once, and then away, whatever the job has made of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any


def delete(folder: Path) -> None:
    """Take a job's folder out of sight at once, and then away."""
    doomed = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    try:
        os.rename(folder, doomed)
    except FileNotFoundError:
        return
    _remove(doomed)


def kept(jobs: Path) -> frozenset[str]:
    """The jobs that have a folder; what was out of sight already is taken away."""
    names = os.listdir(jobs)
    for name in names:
        if name.startswith("."):
            with contextlib.suppress(OSError):
                _remove(jobs / name)
    return frozenset(name for name in names if not name.startswith("."))


def _remove(doomed: Path) -> None:
    """Folders that the job made unwritable, too. Root needs no leave, and changes nothing that a job may have linked
    to."""

    def make_writable(remove: Callable[[str], object], path: str, error: Any) -> None:
        if issubclass(error[0], FileNotFoundError):
            return
        if os.geteuid() == 0:
            raise error[1]
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path)
        else:
            os.unlink(path)

    shutil.rmtree(doomed, onerror=make_writable)
