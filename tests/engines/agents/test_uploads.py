"""Pieces of files that agents send, some of them twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler.engines.agents import uploads
from scheduler.engines.agents.tokens import Worker
from scheduler.engines.agents.uploads import Uploads
from scheduler.engines.files import Area, log_file, output_file
from scheduler.errors import TooLarge
from scheduler.model import JobId
from tests.engines.agents.workers import FIRST, SECOND


@pytest.fixture
async def uploaded(tmp_path: Path) -> Uploads:
    found = Uploads(tmp_path, 100, lambda job, worker: True)
    await found.open()
    return found


async def test_pieces_of_a_log_may_come_twice_and_from_an_earlier_place(uploaded: Uploads) -> None:
    assert await uploaded.append(FIRST, "log", 0, b"one ") == 4
    assert await uploaded.append(FIRST, "log", 0, b"one ") == 4
    assert await uploaded.append(FIRST, "log", 0, b"one two ") == 8
    assert await uploaded.append(FIRST, "log", 99, b"far ahead") == 8
    assert await uploaded.append(FIRST, "log", 2, b"e ") == 8
    assert await uploaded.read(log_file(JobId("j"), 1, 0), 0, 99) == b"one two "


async def test_pieces_of_reports_may_come_twice_and_are_whole_lines(uploaded: Uploads) -> None:
    for there in (4, 8):
        assert await uploaded.append(FIRST, "reports", 0, b"one\ntw") == there
        assert await uploaded.append(SECOND, "reports", 0, b"other\n") == 6
        assert await uploaded.append(FIRST, "reports", 4, b"two\n") == 8
    assert await uploaded.append(FIRST, "reports", 99, b"far ahead\n") == 8
    assert await uploaded.read(output_file(JobId("j"), "metrics.jsonl"), 0, 99) == b"one\nother\ntwo\n"


async def test_reports_of_many_workers_at_the_same_time_are_all_kept(uploaded: Uploads) -> None:
    workers = [Worker(JobId("j"), 1, rank) for rank in range(20)]
    sent = (uploaded.append(worker, "reports", 0, f"{worker.rank}\n".encode()) for worker in workers)
    await asyncio.gather(*sent)
    text = await uploaded.read(output_file(JobId("j"), "metrics.jsonl"), 0, 999)
    assert sorted(map(int, text.split())) == list(range(20))


async def test_a_file_appears_whole_and_its_pieces_may_come_twice(uploaded: Uploads) -> None:
    def piece(offset: int, data: bytes, version: str = "1") -> uploads.Piece:
        return uploads.Piece(offset, data, 8, float(version), version)

    file = output_file(JobId("j"), "a/b")
    for _ in range(2):
        assert await uploaded.put(FIRST, Area.OUTPUT, "a/b", piece(0, b"one ")) == 4
        assert await uploaded.read(file, 0, 9) == b""
    for _ in range(2):
        assert await uploaded.put(FIRST, Area.OUTPUT, "a/b", piece(4, b"two ")) == 8
        assert await uploaded.read(file, 0, 9) == b"one two "
    assert await uploaded.put(FIRST, Area.OUTPUT, "a/b", piece(0, b"1111", "2")) == 4
    assert await uploaded.read(file, 0, 9) == b"one two "
    assert await uploaded.put(FIRST, Area.OUTPUT, "a/b", piece(4, b"2222", "2")) == 8
    assert await uploaded.read(file, 0, 9) == b"11112222"


async def test_uploads_under_way_count_and_files_stay_within_their_announced_size(
    uploaded: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(uploads.LIMITS, Area.OUTPUT, 100)
    await uploaded.put(FIRST, Area.OUTPUT, "a", uploads.Piece(0, b"x" * 60, 80, 1.0, "1"))
    with pytest.raises(TooLarge):
        await uploaded.put(FIRST, Area.OUTPUT, "b", uploads.Piece(0, b"x", 80, 1.0, "1"))
    assert await uploaded.put(FIRST, Area.OUTPUT, "a", uploads.Piece(60, b"x" * 60, 120, 1.0, "1")) == 0
    with pytest.raises(TooLarge):
        await uploaded.put(FIRST, Area.OUTPUT, "a", uploads.Piece(60, b"x" * 60, 80, 1.0, "1"))
    assert await uploaded.put(FIRST, Area.OUTPUT, "a", uploads.Piece(60, b"x" * 20, 80, 1.0, "1")) == 80
    await uploaded.put(SECOND, Area.OUTPUT, "c", uploads.Piece(0, b"x", 20, 1.0, "1"))
    uploaded.keep(SECOND)  # it ended before it had sent everything
    await uploaded.put(FIRST, Area.OUTPUT, "d", uploads.Piece(0, b"x", 20, 1.0, "1"))


async def test_reports_that_were_added_before_a_crash_are_not_added_again(uploaded: Uploads, tmp_path: Path) -> None:
    await uploaded.append(FIRST, "reports", 0, b"one\n")
    book = tmp_path / "jobs/j/merged.json"
    before = book.read_bytes()
    await uploaded.append(FIRST, "reports", 4, b"two\n")
    book.write_bytes(before)  # as after `kill -9` between the two
    assert await uploaded.append(FIRST, "reports", 4, b"two\n") == 8
    assert await uploaded.read(output_file(JobId("j"), "metrics.jsonl"), 0, 99) == b"one\ntwo\n"
