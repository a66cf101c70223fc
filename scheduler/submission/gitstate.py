"""The state of the Git repository that a job is submitted from."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from scheduler.schema import GitSubmit, JobSubmit

PATIENCE = 5.0
"""The most seconds to wait for Git. Without its answer the job is sent all the same."""

STATUS = ("git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch", "--untracked-files=no")


def with_git(sent: JobSubmit, folder: Path) -> JobSubmit:
    """A submission of the folder's files, with the state of its repository if it is in one."""
    found = git_state(folder)
    return sent if found is None else sent.model_copy(update={"git": found})


def git_state(folder: Path) -> GitSubmit | None:
    """The commit and branch of the folder's repository, and how many of its files differ from the commit; `None`
    outside a repository, before the first commit and without Git."""
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # writes nothing while the user's own Git runs
    try:
        asked = subprocess.run(STATUS, cwd=folder, env=env, capture_output=True, check=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = asked.stdout.decode(errors="replace").splitlines()
    told = dict[str, str]()
    for line in lines:
        with contextlib.suppress(ValueError):
            mark, name, value = line.split(" ", 2)
            told |= {name: value} if mark == "#" else {}
    commit, branch = told.get("branch.oid", ""), told.get("branch.head", "")
    if not commit or commit == "(initial)":
        return None
    changed = sum(not line.startswith("#") for line in lines)
    return GitSubmit(commit=commit, branch="" if branch == "(detached)" else branch[:255], changed=changed)
