"""A folder is deleted whatever is in it."""

from __future__ import annotations

import os
from contextlib import chdir
from pathlib import Path

import pytest

from scheduler.files.removal import remove_tree


@pytest.mark.parametrize("name", ["d", "d" * 200])
def test_a_folder_goes_however_deep_it_is_and_nothing_that_is_linked_to(tmp_path: Path, name: str) -> None:
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
