"""A damaged database is refused with a sentence that names the file and says what to do."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from scheduler.errors import Unavailable
from scheduler.model import JobId
from scheduler.store import ChangeSet, Store
from tests.store.samples import event, job

NOISE = random.Random(1).randbytes(50_000)


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A database with jobs, as left by a scheduler."""
    return await write(tmp_path / "runai.sqlite", 0)


async def write(file: Path, first: int, *, die: bool = False) -> Path:
    store = Store(f"sqlite:///{file}")
    store.open()
    for some in range(first, first + 200, 50):
        new = [job(n) for n in range(some, some + 50)]
        events = tuple(event(each.id, "job.submitted") for each in new)
        await store.write(ChangeSet(submitted=tuple(new), events=events))
    if die:  # as after `kill -9`: copies of the files before they are closed
        kept = {each: each.read_bytes() for each in file.parent.iterdir()}
        store.close()
        for each, content in kept.items():
            each.write_bytes(content)
    store.close()
    return file


def refusal(file: Path) -> str:
    with pytest.raises(Unavailable) as refused:
        jobs(file)
    assert str(file) in refused.value.sentence
    return refused.value.sentence


def jobs(file: Path) -> int:
    store = Store(f"sqlite:///{file}")
    store.open()
    try:
        return len(store.load().jobs)
    finally:
        store.close()


@pytest.mark.parametrize("kept", [0, 1, 100, 4096, 50_000])
async def test_a_truncated_database_is_refused(file: Path, kept: int) -> None:
    file.write_bytes(file.read_bytes()[:kept])
    assert re.search(
        r"is damaged \(.+\)\. Restore runai\.sqlite from a backup, or move it, .* to start with",
        refusal(file),
    )


@pytest.mark.parametrize("page", [0, 1, 5, 20])
async def test_noise_in_a_database_is_refused(file: Path, page: int) -> None:
    content = bytearray(file.read_bytes())
    content[4096 * page : 4096 * page + len(NOISE)] = NOISE
    file.write_bytes(content)
    assert "is damaged" in refusal(file)


@pytest.mark.parametrize("how", ["missing", "empty", "truncated", "noise"])
async def test_a_write_ahead_log_that_has_lost_changes_is_noticed(file: Path, how: str) -> None:
    await write(file, 200, die=True)
    log = file.with_name("runai.sqlite-wal")
    assert log.stat().st_size > 100_000
    if how == "missing":
        log.unlink()
    else:
        log.write_bytes({"empty": b"", "truncated": log.read_bytes()[:50_000], "noise": NOISE}[how])
    told = refusal(file)
    assert re.search(r"has lost the last \d+ changes; runai.sqlite-wal is damaged or missing. Restore both", told)
    file.with_name("runai.sqlite.last").unlink()
    assert 200 <= jobs(file) < 400


async def test_a_database_that_is_damaged_while_it_is_open_cannot_be_read(file: Path) -> None:
    store = Store(f"sqlite:///{file}")
    store.open()
    with file.open("r+b") as damaged:
        damaged.seek(4096)
        damaged.write(NOISE)
    with pytest.raises(Unavailable, match=r"^The state could not be read \(.+\); try again\.$"):
        await store.job(JobId("j1"))
    store.close()


@pytest.mark.parametrize("content", [b"", NOISE])
async def test_a_database_that_has_lost_all_changes_is_not_taken_for_a_new_one(tmp_path: Path, content: bytes) -> None:
    file = await write(tmp_path / "runai.sqlite", 0, die=True)
    file.with_name("runai.sqlite-wal").write_bytes(content)
    assert "has lost all changes; runai.sqlite-wal is damaged or missing" in refusal(file)


@pytest.mark.parametrize("name", ["runai.sqlite-shm", "runai.sqlite.last", "runai.sqlite.lock"])
@pytest.mark.parametrize("content", [b"", b"9", NOISE])
async def test_other_damaged_files_next_to_a_database_are_ignored(file: Path, name: str, content: bytes) -> None:
    await write(file, 200, die=True)
    file.with_name(name).write_bytes(content)
    assert jobs(file) == 400


async def test_a_removed_database_is_created_again(file: Path) -> None:
    file.unlink()
    assert jobs(file) == 0
