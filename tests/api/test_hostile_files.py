"""A job's files are untrusted: they break no response, hide nothing else, and are deleted with the job."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.files.removal import remove_tree
from scheduler.model import JobState

LEAVES = r"""
import os, sys
here, saved = os.environ["RUNAI_OUTPUT_DIR"], os.environ["RUNAI_CHECKPOINT_DIR"]
os.chdir(here)
deep = "[" * 1000 + "]" * 1000
with open("metrics.jsonl", "w") as reports:
    for line in (deep, '{"a": ' + deep + "}", '{"text": "\\ud800"}', '{"step": 1e999}', '{"step": 2}', '{"step": NaN}'):
        print(line, file=reports)
os.mkdir(".runai-cell")
with open(".runai-cell/displays.1.jsonl", "w") as shown:
    for text in ('"\\udc00"', deep, "[" * 300 + "]" * 300, '"good"'):
        data = '{"text/plain": "x", "application/json": %s}' % text
        output = '{"output_type": "display_data", "metadata": {}, "data": %s}' % data
        print('{"at": null, "plain": "", "output": %s}' % output, file=shown)
open("good.txt", "w").write("fine")
open(b"bad-\xff", "w").write("x")
open("steer\x1b[2J\n", "w").write("x")
os.mkdir("closed")
open("closed/file", "w").write("x")
os.chmod("closed", 0)
for folder in (here, saved, os.path.dirname(os.environ["RUNAI_OUTPUT_DIR"]) + "/work"):
    os.chdir(folder)
    for _ in range(1100):
        os.mkdir("d" * 100)
        os.chdir("d" * 100)
    open("file", "w").write("x")
sys.stdout.buffer.write(b"said \xff\xed\xa0\x80")
"""

PAGES = ("", "explain", "outputs", "outputs/good.txt", "logs", "metrics", "display")
FAR = (2**63 - 1, 2**63, 2**80)


@pytest.fixture
async def jobs(service: Any) -> AsyncIterator[Path]:
    """The folder of the jobs' folders, cleaned up here: a failed test's remains would be too deep for pytest."""
    yield service.state_dir / "jobs"
    for left in (service.state_dir / "jobs").iterdir():
        remove_tree(left)


async def test_hostile_files_break_no_request_and_are_deleted(service: Any, jobs: Path) -> None:
    owner = service.http["owner"]
    job = (await service.submit(command=[sys.executable, "-c", LEAVES], gpus=0))["id"]
    await service.until(job, JobState.SUCCEEDED)
    told = {page: await owner.get(f"jobs/{job}/{page}".rstrip("/")) for page in PAGES}
    assert {page: answer.status_code for page, answer in told.items()} == dict.fromkeys(PAGES, 200)
    files = {file["path"] for file in told["outputs"].json()["files"]}
    assert {"good.txt", "steer\x1b[2J\n", "metrics.jsonl"} <= files
    assert told["metrics"].json()["points"][-2:] == [{"step": 2}, {"step": None}]
    assert '"good"' in told["display"].text
    for far in FAR:
        for page in (f"logs?offset={far}", f"metrics?offset={far}", f"display?log={far}&display={far}"):
            assert (await owner.get(f"jobs/{job}/{page}")).status_code == 200, page
    assert (await owner.delete(f"jobs/{job}")).status_code == 204
    assert not list(jobs.iterdir())
