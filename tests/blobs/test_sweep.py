"""Unreferenced blobs are deleted, unless they were uploaded or requested recently."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.owners import Owners
from scheduler.files.blobs import Blobs
from tests.blobs.test_blobs import digest

LONG_AGO = time.time() - 10 * 86_400
YESTERDAY = time.time() - 86_400


def put(blobs: Blobs, data: bytes, *, old: bool = False) -> str:
    name = digest(data)
    with blobs.receive(name) as incoming:
        incoming.write(data)
        asyncio.run(incoming.commit())
    if old:
        os.utime(blobs.path(name), (LONG_AGO, LONG_AGO))
    return name


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=8))
def test_exactly_what_is_old_not_needed_and_not_asked_for_goes(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[tuple[bool, bool, bool]]
) -> None:
    blobs = Blobs(tmp_path_factory.mktemp("state"))
    names = [put(blobs, b"%d" % n, old=old) for n, (old, _, _) in enumerate(kinds)]
    for name, (_, _, touched) in zip(names, kinds, strict=True):
        if touched:
            assert blobs.touch(name)
    needed = {name for name, (_, wanted, _) in zip(names, kinds, strict=True) if wanted}
    goes = [old and not wanted and not touched for old, wanted, touched in kinds]
    assert blobs.sweep(needed, YESTERDAY) == sum(goes)
    assert [not blobs.exists(name) for name in names] == goes


def test_a_deleted_blob_can_be_uploaded_again(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    name = put(blobs, b"data", old=True)
    blobs.sweep((), YESTERDAY)
    assert not blobs.touch(name)
    assert put(blobs, b"data") == name
    assert blobs.sweep((), YESTERDAY) == 0
    assert blobs.path(name).read_bytes() == b"data"


def test_a_blob_that_was_looked_up_is_not_deleted(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    names = [put(blobs, b"%d" % n, old=True) for n in range(200)]
    with ThreadPoolExecutor(2) as pool:
        swept = pool.submit(blobs.sweep, (), YESTERDAY)
        told = pool.submit(lambda: [name for name in reversed(names) if blobs.touch(name)])
        assert swept.result() + len(told.result()) == len(names)
        assert all(blobs.exists(name) for name in told.result())


def test_its_uploader_is_forgotten_with_a_blob(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    owners = Owners(tmp_path / "blobs" / "owners", blobs.size)
    gone, there = put(blobs, b"gone", old=True), put(blobs, b"there")
    for name in (gone, there):
        owners.add("ada", name)
        assert owners.has("ada", name)
    blobs.sweep((), YESTERDAY)
    owners.sweep(blobs.exists)
    assert not owners.has("ada", gone)
    assert owners.has("ada", there)
    assert not owners.has("bob", there)
