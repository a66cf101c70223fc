"""A folder is deleted whatever its content."""

from __future__ import annotations

import os
from contextlib import chdir
from pathlib import Path

import pytest

from scheduler.files.removal import remove_tree


@pytest.mark.parametrize("name", ["d", "d" * 200])
def test_a_folder_of_any_depth_is_deleted_without_following_links(tmp_path: Path, name: str) -> None:
    outside, doomed = tmp_path / "outside", tmp_path / "doomed"
    outside.mkdir()
    (outside / "kept").touch()
    doomed.mkdir()
    (doomed / "link").symlink_to(outside)
    (doomed / os.fsdecode(b"\xff")).touch()
    (doomed / "closed/inner").mkdir(parents=True)
    (doomed / "closed/inner").chmod(0)
    (doomed / "closed").chmod(0)
    os.mkfifo(doomed / "pipe")
    with chdir(doomed):
        for _ in range(1100):
            os.mkdir(name)
            os.chdir(name)
            os.symlink(outside, "link")
    remove_tree(doomed)
    assert list(tmp_path.iterdir()) == [outside]
    assert (outside / "kept").exists()
