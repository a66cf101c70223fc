"""Deleting the folder of a job that has ended: out of sight at once, and then away, whatever the job has made of it."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

from scheduler.files.removal import remove_tree
from scheduler.model import JobId


def delete(folder: Path) -> None:
    """Take a job's folder out of sight at once, and then away."""
    doomed = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    try:
        os.rename(folder, doomed)
    except FileNotFoundError:
        return
    remove_tree(doomed)


def kept(jobs: Path) -> frozenset[JobId]:
    """The jobs that have a folder; what was out of sight already is taken away."""
    names = os.listdir(jobs)
    for name in names:
        if name.startswith("."):
            with contextlib.suppress(OSError):
                remove_tree(jobs / name)
    return frozenset(JobId(name) for name in names if not name.startswith("."))
