"""Uploads of a job's files to a scheduler in a separate process: large files separately, and once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.client.uploading import upload
from scheduler.errors import Invalid
from scheduler.files.bundle import LARGE, PART, snapshot
from scheduler.schema import JobSubmit


def test_of_a_large_file_only_the_part_that_changed_is_sent_again(scheduler: Any, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "data").mkdir(parents=True)
    (folder / "train.sh").write_text("sha256sum < data/big | head -c 64; test -x data/tool\n")
    big = bytearray(os.urandom(2 * PART + 5))
    (folder / "data/big").write_bytes(big)
    (folder / "data/tool").write_bytes(os.urandom(LARGE))
    (folder / "data/tool").chmod(0o755)
    with scheduler.client() as client:
        first = upload(client, snapshot(folder))
        assert first.unchanged == 0
        assert [(file.path, len(file.blobs), file.executable) for file in first.files] == [
            ("data/big", 3, False),
            ("data/tool", 1, True),
        ]
        big[PART] ^= 1
        (folder / "data/big").write_bytes(big)
        again = upload(client, snapshot(folder))
        assert again.unchanged == PART + 5 + LARGE
        assert again.bundle == first.bundle
        job = client.submit(JobSubmit(command=["sh", "train.sh"], gpus=0, **again.fields))
        assert client.wait(job.id, timeout=60).state == "succeeded"
        assert b"".join(client.logs(job.id)).decode() == hashlib.sha256(big).hexdigest()


def test_a_file_that_changes_after_it_was_listed_is_refused(scheduler: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder/big"
    changes: tuple[Callable[[], None], ...] = (
        lambda: file.unlink(),
        lambda: os.truncate(file, LARGE),
        lambda: os.truncate(file, 3 * LARGE),
    )
    for change in changes:
        file.write_bytes(bytes(2 * LARGE))
        bundle = snapshot(file.parent)
        change()
        with scheduler.client() as client, pytest.raises(Invalid, match="could not be sent"):
            upload(client, bundle)
