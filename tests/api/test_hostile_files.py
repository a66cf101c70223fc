"""A job may write anything into its files: its owner is answered, one bad entry hides no other, and all can be deleted."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.engines.local.deleting import delete
from scheduler.model import JobState
from scheduler.service.retention import Retention

DEEP = 1500


@pytest.fixture(autouse=True)
def nothing_deep_is_left(tmp_path: Path) -> Iterator[None]:
    """pytest, which deletes the folders of earlier sessions, would fail over these in any later session."""
    yield
    delete(tmp_path / "jobs")


FOLDERS = f"""
import os
os.chdir(os.environ["RUNAI_OUTPUT_DIR"])
open("good.txt", "w").write("good")
os.makedirs("sub/folder")
open("sub/folder/good.txt", "w").write("good")
open(b"caf\\xe9 \\xff.txt", "w").write("not UTF-8")
open("a\\nb\\x1b[1m.txt", "w").write("control characters")
os.mkfifo("pipe")
os.symlink("/etc/passwd", "link")
os.utime("sub/folder/good.txt", (2**40, 2**40))
os.makedirs(b"\\xfe/closed")
os.chmod(b"\\xfe/closed", 0)
for _ in range({DEEP}):
    os.mkdir("d")
    os.chdir("d")
open("bottom.txt", "w").write("deep")
"""

WRITE = """
import base64, os, pathlib, sys, zlib
file = pathlib.Path(os.environ["RUNAI_OUTPUT_DIR"], sys.argv[1])
file.parent.mkdir(exist_ok=True)
file.write_bytes(zlib.decompress(base64.b64decode(sys.argv[2])))
os.write(1, b"\\xff\\xed\\xa0\\x80text\\n")
"""

DISPLAY = b'{"at": %s, "plain": "%s", "output": {"output_type": "display_data", "data": %s}}'
BAD = [
    *(b"[" * 1000 + b"]" * 1000, b"[" * 100_000, b'{"a":' * 2000 + b"1" + b"}" * 2000),
    *(b'"\\ud800"', b"\xff\xfe\x00", b"", b"{}", b"[]", b'{"at": "x", "plain": 1, "output": []}'),
    DISPLAY % (b"1e400", b"\\ud800", b'{"\\udfff": "\\ud800"}'),
    DISPLAY % (b"null", b"\\udc00", b"[" * 300 + b"]" * 300),
    DISPLAY % (b"1" + b"0" * 400, b"", b"[1" + b"0" * 4000 + b"]"),
    b'{"time": 1e400, "\\ud800": "\\ud800", "huge": 1%s, "large": 1%s, "nan": NaN}'
    % (b"0" * 4000, b"0" * 30),
    b'{"huge": 1%s}' % (b"0" * 5000),
]


async def ended(service: Any, script: str, *arguments: str) -> str:
    command = ["python", "-I", "-S", "-c", script, *arguments]
    job = (await service.submit(command=command, gpus=0))["id"]
    await service.until(job, JobState.SUCCEEDED)
    return str(job)


async def wrote(service: Any, name: str, *lines: bytes) -> str:
    """A job that has written these lines into one of its files."""
    return await ended(
        service, WRITE, name, base64.b64encode(zlib.compress(b"\n".join(lines) + b"\n")).decode()
    )


async def test_outputs_are_listed_and_opened_beside_any_others(service: Any) -> None:
    job = await ended(service, FOLDERS)
    owner = service.http["owner"]
    answer = await owner.get(f"jobs/{job}/outputs")
    assert answer.status_code == 200
    paths = {file["path"] for file in answer.json()["files"]}
    assert paths == {"good.txt", "sub/folder/good.txt", "caf\\xe9 \\xff.txt", "a\nb\x1b[1m.txt"}
    for path, content in (
        ("good.txt", "good"),
        ("caf%5Cxe9%20%5Cxff.txt", "not UTF-8"),
        ("caf%E9%20%FF.txt", "not UTF-8"),
        ("sub/folder/good.txt", "good"),
    ):
        assert (await owner.get(f"jobs/{job}/outputs/{path}")).text == content
    deep = "/".join(["d"] * 60)
    for path in (
        "pipe",
        "link",
        "%FF",
        "%00",
        "sub",
        "d/" * DEEP + "x",
        f"{deep}/none",
        "x" * 300,
        "%5Cxff",
        "%ED%A0%80",
    ):
        assert (await owner.get(f"jobs/{job}/outputs/{path}")).status_code == 404, path


async def test_a_listing_is_bounded_and_begins_with_what_is_near(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scheduler.engines.local import outputs

    many = (
        "import os; os.chdir(os.environ['RUNAI_OUTPUT_DIR'])\nfor i in range(200): os.makedirs(f'a{i}/b/c')\n"
    )
    job = await ended(
        service, many + "for i in range(20): open(f'f{i}', 'w').close(); open(f'a{i}/b/c/f', 'w').close()"
    )
    owner = service.http["owner"]
    assert len((await owner.get(f"jobs/{job}/outputs")).json()["files"]) == 40
    monkeypatch.setattr(outputs, "MOST", 30)
    assert len((await owner.get(f"jobs/{job}/outputs")).json()["files"]) == 30
    monkeypatch.setattr(outputs, "MOST_ENTRIES", 300)
    files = (await owner.get(f"jobs/{job}/outputs")).json()["files"]
    assert {file["path"] for file in files} == {f"f{i}" for i in range(20)}


async def test_reports_are_told_beside_any_others(service: Any) -> None:
    job = await wrote(service, "metrics.jsonl", b'{"step": 1}', *BAD, b'{"step": 2}')
    answer = await service.http["owner"].get(f"jobs/{job}/metrics")
    assert answer.status_code == 200
    points = answer.json()["points"]
    assert [point["step"] for point in points if "step" in point] == [1, 2]
    assert {"time": None, "?": "?", "huge": None, "large": 1e30, "nan": None} in points
    assert answer.json()["next"] > 100_000


async def test_displays_are_told_beside_any_others(service: Any) -> None:
    good = [DISPLAY % (b"null", b"", b'{"text/html": "good %d"}' % n) for n in (1, 2)]
    job = await wrote(service, ".runai-cell/displays.1.jsonl", good[0], *BAD, good[1])
    answer = await service.http["owner"].get(f"jobs/{job}/display")
    assert answer.status_code == 200
    told = [json.loads(line)["output"] for line in answer.text.splitlines()]
    shown = [output["data"] for output in told if output["output_type"] == "display_data"]
    assert [data["text/html"] for data in shown if "text/html" in data] == ["good 1", "good 2"]
    assert "text\n" in "".join(output.get("text", "") for output in told)
    log = await service.http["owner"].get(f"jobs/{job}/logs")
    assert log.content == b"\xff\xed\xa0\x80text\n"


NUMBERS = (str(2**53 + 1), str(2**63), str(2**64), "9" * 30, "9" * 5000, "-1", "1e3", "0x1", "%ff")
PLACES = (
    *("logs?offset", "logs?rank", "logs?attempt", "logs?limit"),
    *("display?log", "display?display", "display?attempt", "metrics?offset"),
)


async def test_no_number_in_a_query_is_too_large_to_be_refused(service: Any) -> None:
    job = await ended(service, "print('text')")
    owner = service.http["owner"]
    for place in PLACES:
        for number in NUMBERS:
            answer = await owner.get(f"jobs/{job}/{place}={number}")
            assert answer.status_code in (404, 422), (place, number)
            assert answer.json()["detail"]
    for place in ("logs?offset", "metrics?offset", "display?log", "display?display"):
        assert (await owner.get(f"jobs/{job}/{place}={2**53}")).status_code == 200
    for number in NUMBERS:
        assert (await owner.get(f"events?after={number}")).status_code == 422, number


async def test_whatever_is_in_the_place_of_a_log_the_owner_is_answered(service: Any) -> None:
    job = await ended(service, "print('text')")
    log = service.state_dir / "jobs" / job / "attempts/1/0/log"
    kinds: list[Callable[[], object]] = [
        lambda: os.mkfifo(log),
        lambda: log.symlink_to("/etc/passwd"),
        lambda: log.symlink_to(log),
        lambda: None,
        log.mkdir,
    ]
    for make in kinds:
        log.unlink(missing_ok=True)
        make()
        for path in ("logs", "display", "logs?follow=true"):
            answer = await service.http["owner"].get(f"jobs/{job}/{path}")
            assert (answer.status_code, answer.text) == (200, "")


async def test_all_of_it_is_deleted(service: Any) -> None:
    job = await ended(service, FOLDERS)
    assert (await service.http["owner"].delete(f"jobs/{job}")).status_code == 204
    assert list((service.state_dir / "jobs").iterdir()) == []


def change_attributes(how: str, file: Path) -> bool:
    done = subprocess.run(["chattr", how, str(file)], capture_output=True, check=False)
    return done.returncode == 0


async def test_what_cannot_be_deleted_keeps_nothing_else(service: Any) -> None:
    """Deleted jobs with hostile files, one of which has a file that nobody can delete, and the retention rounds after it."""
    stuck, deep = await ended(service, FOLDERS), await ended(service, FOLDERS)
    jobs: Path = service.state_dir / "jobs"
    other = os.fsencode(jobs) + b"/\xff\xfe"
    os.mkdir(other)
    shutil.copytree(jobs / deep / "output/sub", jobs / ".half-deleted/sub")
    immutable = jobs / stuck / "output/sub/folder/good.txt"
    if not change_attributes("+i", immutable):
        pytest.skip("needs a file system with immutable files, and to be root")
    try:
        api = service.app.settings["api"]
        retention = Retention(service.controller, service.store, api.blobs, api.owners)
        for job in (stuck, deep):
            assert (await service.http["owner"].delete(f"jobs/{job}")).status_code == 204
        for _ in range(2):
            await retention.round(blobs=True)
            left = [path for path in jobs.rglob("*") if path.is_file()]
            assert [path.name for path in left] == ["good.txt"]
            assert not (jobs / deep).exists()
            assert os.path.isdir(other)
    finally:
        for file in (immutable, *jobs.glob(".*/*/good.txt")):  # where it is now
            change_attributes("-i", file)
    await retention.round(blobs=True)
    assert os.listdir(os.fsencode(jobs)) == [b"\xff\xfe"]
