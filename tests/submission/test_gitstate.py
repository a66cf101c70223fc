"""The state of the repository that a job is sent from, asked of the real Git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scheduler.schema import JobSubmit
from scheduler.submission.gitstate import git_state, with_git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs Git, which this machine does not have")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-b", "main")
    for name in ("train.py", "data.py"):
        (tmp_path / name).write_text("print(1)\n")
    (tmp_path / "sub").mkdir()
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "begin")
    return tmp_path


def test_it_is_the_commit_the_branch_and_the_number_of_changed_files(repository: Path) -> None:
    found = git_state(repository / "sub")
    assert found is not None
    assert (found.commit, found.branch, found.changed) == (git(repository, "rev-parse", "HEAD"), "main", 0)
    (repository / "train.py").write_text("print(2)\n")
    (repository / "data.py").unlink()
    (repository / "new.py").write_text("")  # not part of the repository
    found = git_state(repository)
    assert found is not None
    assert found.changed == 2


def test_a_commit_without_a_branch(repository: Path) -> None:
    git(repository, "checkout", "--detach")
    found = git_state(repository)
    assert found is not None
    assert (len(found.commit), found.branch) == (40, "")


def test_there_is_none_without_a_repository_without_a_commit_and_without_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = JobSubmit(command=["true"])
    assert with_git(sent, tmp_path) is sent
    git(tmp_path, "init")
    assert git_state(tmp_path) is None
    monkeypatch.setenv("PATH", "")
    assert git_state(tmp_path) is None
