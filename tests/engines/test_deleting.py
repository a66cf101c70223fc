"""A folder that a job made is deleted, also by a scheduler that is not root and has been shut out of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.engines.local import deleting

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in one that nobody else but the user who is to delete it can change."""
    place = Path(tempfile.mkdtemp())
    made = place / "job"
    (made / "shut/out/deep").mkdir(parents=True)
    (made / "shut/out/deep/file").write_text("")
    (made / "kept/beside").mkdir(parents=True)
    (made / "link").symlink_to(place / "outside")
    (place / "outside/below").mkdir(parents=True)
    for below in ("shut/out/deep", "shut/out", "shut"):
        (made / below).chmod(0)
    yield made
    subprocess.run(["chmod", "-R", "u+rwX", str(place)], check=True)
    shutil.rmtree(place)


def delete_as(user: int, folder: Path) -> None:
    for path in (folder.parent, *folder.parent.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)
    os.seteuid(user)
    try:
        deleting.delete(folder)
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize("user", [0, NOBODY])
def test_what_a_job_has_shut_is_deleted_and_nothing_outside(folder: Path, user: int) -> None:
    delete_as(user, folder)
    assert not folder.exists()
    assert (folder.parent / "outside/below").is_dir()


@pytest.mark.parametrize("depth", [1, 50, 3000])
def test_no_folder_is_too_deep(tmp_path: Path, depth: int) -> None:
    top = tmp_path / "job"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("x" * 200, dir_fd=here)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT, dir_fd=here))
    os.close(here)
    deleting.delete(top)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["nothing", "file", "link"])
def test_whatever_is_in_the_place_of_a_folder_is_deleted(tmp_path: Path, kind: str) -> None:
    (tmp_path / "other").mkdir()
    if kind == "file":
        (tmp_path / "job").write_text("")
    elif kind == "link":
        (tmp_path / "job").symlink_to(tmp_path / "other")
    deleting.delete(tmp_path / "job")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
