"""Bundles arrive whole or not at all, and unpack only into their folder."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.errors import Invalid, NotFound, RunaiError, TooLarge
from scheduler.files.blobs import Blobs
from scheduler.model import LargeFile


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def file(name: str, content: bytes = b"", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    return info, content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o777
    return info, b""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path)


async def put(blobs: Blobs, data: bytes) -> str:
    with blobs.receive(digest(data)) as incoming:
        for start in range(0, len(data), 7):
            incoming.write(data[start : start + 7])
        await incoming.commit()
    return digest(data)


async def test_a_bundle_is_kept_by_its_digest(blobs: Blobs) -> None:
    data = tar(file("train.py", b"print(1)\n"))
    assert not blobs.exists(digest(data))
    name = await put(blobs, data)
    assert blobs.exists(name)
    assert blobs.size(name) == len(data)
    assert blobs.path(name).read_bytes() == data
    assert await put(blobs, data) == name  # again: the same


async def test_bytes_with_another_digest_are_refused_and_leave_nothing(blobs: Blobs, tmp_path: Path) -> None:
    with blobs.receive("0" * 64) as incoming:
        incoming.write(b"something else")
        with pytest.raises(Invalid, match="Send it again"):
            await incoming.commit()
    assert not blobs.exists("0" * 64)
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []


async def test_too_much_is_refused_while_it_arrives(blobs: Blobs, tmp_path: Path) -> None:
    with blobs.receive("0" * 64, max_bytes=10) as incoming, pytest.raises(TooLarge):
        incoming.write(b"12345678901")
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []


async def test_incomplete_uploads_of_a_killed_scheduler_are_deleted(blobs: Blobs, tmp_path: Path) -> None:
    incoming = blobs.receive("0" * 64)
    incoming.write(b"half of it")
    Blobs(tmp_path).discard_incoming()
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []
    incoming.abort()


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_only_a_digest_names_a_bundle(blobs: Blobs, name: str) -> None:
    with pytest.raises(Invalid):
        blobs.path(name)


async def test_a_missing_bundle_is_not_found(blobs: Blobs, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        blobs.size("0" * 64)
    with pytest.raises(Invalid):
        await blobs.unpack("0" * 64, tmp_path / "work")


async def test_files_folders_modes_and_inner_links_are_unpacked_unchanged(blobs: Blobs, tmp_path: Path) -> None:
    name = await put(
        blobs,
        tar(
            file("pkg/train.py", b"code"),
            file("run.sh", b"#!/bin/sh\n", 0o755),
            special("latest.py", tarfile.SYMTYPE, "pkg/train.py"),
            special("again.py", tarfile.LNKTYPE, "pkg/train.py"),
        ),
    )
    work = tmp_path / "job" / "work"
    await blobs.unpack(name, work)
    assert (work / "pkg/train.py").read_bytes() == b"code"
    assert os.readlink(work / "latest.py") == "pkg/train.py"
    assert (work / "again.py").read_bytes() == b"code"
    assert stat.S_IMODE((work / "run.sh").stat().st_mode) == 0o755
    assert sorted(path.name for path in work.parent.iterdir()) == ["work"]


async def test_an_unpacked_folder_is_not_overwritten(blobs: Blobs, tmp_path: Path) -> None:
    name = await put(blobs, tar(file("a", b"1")))
    await blobs.unpack(name, tmp_path / "work")
    (tmp_path / "work/a").write_bytes(b"changed by the first attempt")
    await blobs.unpack(name, tmp_path / "work")
    assert (tmp_path / "work/a").read_bytes() == b"changed by the first attempt"


HOSTILE: dict[str, Callable[[], bytes]] = {
    "absolute path": lambda: tar(file("/etc/evil", b"x")),
    "path that leads out": lambda: tar(file("a/../../evil", b"x")),
    "link that leads out": lambda: tar(special("out", tarfile.SYMTYPE, "../..")),
    "absolute link": lambda: tar(special("out", tarfile.SYMTYPE, "/etc/passwd")),
    "write through a link": lambda: tar(
        special("in", tarfile.SYMTYPE, "."), file("in/evil", b"x"), special("in/up", tarfile.SYMTYPE, "..")
    ),
    "write over a link": lambda: tar(special("in", tarfile.SYMTYPE, "other"), file("in", b"x")),
    "hard link out": lambda: tar(special("hard", tarfile.LNKTYPE, "../../secret")),
    "hard link to a link": lambda: tar(special("in", tarfile.SYMTYPE, "x"), special("hard", tarfile.LNKTYPE, "in")),
    "pipe": lambda: tar(special("pipe", tarfile.FIFOTYPE)),
    "device": lambda: tar(special("null", tarfile.CHRTYPE)),
    "file as a folder": lambda: tar(file("a", b"x"), file("a/b", b"x")),
    "not a tar": lambda: gzip.compress(b"nothing of the kind" * 100),
    "not gzip": lambda: b"plain bytes",
    "cut short": lambda: tar(file("a", os.urandom(100_000)))[:-5000],
    "huge header": lambda: gzip.compress(_header(tarfile.XHDTYPE, 2**33) + b"\0" * 10_000),
    "huge long name": lambda: gzip.compress(_header(tarfile.GNUTYPE_LONGNAME, 2**33) + b"\0" * 10_000),
}


def _header(kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo("pax")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_bundle_is_refused_and_leaves_nothing(blobs: Blobs, tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").write_text("secret")
    name = await put(blobs, HOSTILE[kind]())
    with pytest.raises(RunaiError) as refused:
        await blobs.unpack(name, tmp_path / "jobs" / "j" / "work")
    assert refused.value.field == "bundle"
    assert list((tmp_path / "jobs" / "j").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "jobs", "secret"]


async def test_a_bundle_that_would_fill_the_disk_is_refused(blobs: Blobs, tmp_path: Path) -> None:
    name = await put(blobs, tar(file("zeros", b"\0" * 10_000_000)))
    with pytest.raises(TooLarge, match="may unpack to"):
        await blobs.unpack(name, tmp_path / "work", max_bytes=1_000_000)
    assert not (tmp_path / "work").exists()


async def test_a_bundle_of_too_many_files_is_refused(blobs: Blobs, tmp_path: Path) -> None:
    name = await put(blobs, tar(*(file(f"f{i}") for i in range(11))))
    with pytest.raises(TooLarge, match="may hold 10 files"):
        await blobs.unpack(name, tmp_path / "work", max_members=10)
    assert not (tmp_path / "work").exists()


async def test_headers_alone_cannot_grow_without_bound(blobs: Blobs, tmp_path: Path) -> None:
    """Extended headers are not members; only the bound on the total unpacked size stops them."""
    comment = b"17 comment=aaaaa\n"
    pax = _header(tarfile.XHDTYPE, len(comment)) + comment.ljust(512, b"\0")
    name = await put(blobs, gzip.compress(pax * 5000 + file("a")[0].tobuf() + b"\0" * 1024))
    with pytest.raises(RunaiError):
        await blobs.unpack(name, tmp_path / "work", max_bytes=100_000, max_members=10)
    assert not (tmp_path / "work").exists()


# -- large files --------------------------------------------------------------------------------------------


async def test_a_large_file_is_a_copy_of_its_parts_beside_what_the_archive_holds(blobs: Blobs, tmp_path: Path) -> None:
    archive = await put(blobs, tar(file("data/small", b"s")))
    one, two = await put(blobs, b"one"), await put(blobs, b"two")
    files = [LargeFile("data/big", (one, two, one)), LargeFile("run", (two,), executable=True)]
    await blobs.unpack(archive, tmp_path / "work", files)
    assert (tmp_path / "work/data/big").read_bytes() == b"onetwoone"
    assert (tmp_path / "work/data/small").read_bytes() == b"s"
    assert [os.access(tmp_path / "work" / name, os.X_OK) for name in ("data/big", "run")] == [False, True]
    with (tmp_path / "work/run").open("r+b") as changed:
        changed.write(b"!!!")
    assert blobs.path(two).read_bytes() == b"two"


async def test_large_files_need_no_archive(blobs: Blobs, tmp_path: Path) -> None:
    await blobs.unpack(None, tmp_path / "work", [LargeFile("a/b", (await put(blobs, b"x"),))])
    assert (tmp_path / "work/a/b").read_bytes() == b"x"


@pytest.mark.parametrize("path", ["in/evil", "in", "small", "small/x", "../evil", "/evil"])
async def test_no_large_file_goes_through_a_link_over_a_file_or_out(blobs: Blobs, tmp_path: Path, path: str) -> None:
    archive = await put(blobs, tar(special("in", tarfile.SYMTYPE, "."), file("small", b"s")))
    part = await put(blobs, b"x")
    with pytest.raises(Invalid):
        await blobs.unpack(archive, tmp_path / "j" / "work", [LargeFile(path, (part,))])
    assert list((tmp_path / "j").iterdir()) == []
    assert not (tmp_path / "evil").exists()


async def test_large_files_count_towards_the_bounds_and_must_be_there(blobs: Blobs, tmp_path: Path) -> None:
    part = await put(blobs, b"0123456789")
    with pytest.raises(TooLarge, match="may unpack to"):
        await blobs.unpack(None, tmp_path / "work", [LargeFile("a", (part,) * 3)], max_bytes=29)
    with pytest.raises(Invalid):
        await blobs.unpack(None, tmp_path / "work", [LargeFile("a", ("0" * 64,))])
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("left", [b"", b"half", b"\xff" * 3000])
async def test_a_damaged_blob_is_refused_and_can_be_uploaded_again(blobs: Blobs, tmp_path: Path, left: bytes) -> None:
    """By the scheduler that starts after the damage."""
    bundle, part = tar(file("train.py", b"print(1)\n")), os.urandom(1000)
    files = (LargeFile("data.bin", (await put(blobs, part),)),)
    name = await put(blobs, bundle)
    for hurt, whole in ((name, bundle), (digest(part), part)):
        blobs.path(hurt).write_bytes(left)
        again = Blobs(tmp_path)
        with pytest.raises(Invalid, match="is damaged or missing on the scheduler's disk; submit the job again"):
            await again.unpack(name, tmp_path / "work", files)
        assert not again.exists(hurt)
        assert not (tmp_path / "work").exists()
        await put(again, whole)
    await again.unpack(name, tmp_path / "work", files)
    assert (tmp_path / "work/data.bin").read_bytes() == part
