"""Writes that bypass the page cache are correct on any file system, and complete on close."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler.files.direct import BLOCK, DirectFile


def places() -> list[Path | None]:
    """A file system on the disk, and one in memory without direct I/O."""
    return [None, Path("/dev/shm")]


@pytest.mark.parametrize("place", places(), ids=str)
@pytest.mark.parametrize("sizes", [[0], [1], [BLOCK], [BLOCK - 1, 2], [3 * BLOCK + 5], [700_000] * 7])
def test_all_of_it_arrives(tmp_path: Path, place: Path | None, sizes: list[int]) -> None:
    if place is not None and not os.access(place, os.W_OK):
        pytest.skip(f"needs {place}")
    path = (place or tmp_path) / f"direct-{os.getpid()}"
    pieces = [os.urandom(size) for size in sizes]
    try:
        file = DirectFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        for piece in pieces:
            file.write(piece)
        file.close_durably()
        assert path.read_bytes() == b"".join(pieces)
    finally:
        path.unlink(missing_ok=True)


def test_nothing_is_written_to_what_is_closed(tmp_path: Path) -> None:
    file = DirectFile(os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT))
    file.close()
    other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)  # gets the descriptor's number
    with pytest.raises(ValueError, match="closed"):
        file.write(bytes(2 * BLOCK))
    file.close()
    os.close(other)
    assert (tmp_path / "other").stat().st_size == 0
