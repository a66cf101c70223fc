"""A worker's output is read while it is printed, and its files are read without leaving its folder."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from scheduler.engines.files import Area, log_file, output_file
from scheduler.errors import NotFound
from scheduler.model import JobId
from tests.engines.workplace import Workplace, launch, python, shell

TICKS = python(
    "import os, sys, time\nfor _ in range(60):\n    os.write(1, b'%.6f\\n' % time.time())\n    time.sleep(0.01)\n"
)


async def test_output_is_there_within_200_ms_of_being_printed(here: Workplace) -> None:
    await here.engine.launch(launch("j", TICKS))
    seen = b""
    late = []
    while await here.files.grown(log_file(JobId("j"), 1, 0), len(seen)):
        piece = await here.files.read(log_file(JobId("j"), 1, 0), len(seen), 65536)
        now = time.time()
        seen += piece
        late += [now - float(line) for line in piece.split()]
    assert len(late) == 60
    assert sorted(late)[57] < 0.2


async def test_many_readers_follow_one_log_to_its_end(here: Workplace) -> None:
    async def follow() -> bytes:
        seen = b""
        while await here.files.grown(log_file(JobId("j"), 1, 0), len(seen)):
            seen += await here.files.read(log_file(JobId("j"), 1, 0), len(seen), 65536)
        return seen

    await here.engine.launch(launch("j", shell("for i in 1 2 3; do echo $i; sleep 0.05; done; printf end")))
    logs = await asyncio.gather(*(follow() for _ in range(20)))
    assert set(logs) == {b"1\n2\n3\nend"}


async def test_no_more_is_expected_of_a_worker_that_does_not_run(here: Workplace) -> None:
    assert not await here.files.grown(log_file(JobId("j"), 1, 0), 0)
    await here.engine.launch(launch("j", shell("printf abc")))
    await here.end("j")
    assert await here.files.grown(log_file(JobId("j"), 1, 0), 2)
    assert not await here.files.grown(log_file(JobId("j"), 1, 0), 3)


async def test_a_silent_worker_is_waited_for_until_its_end(here: Workplace) -> None:
    await here.engine.launch(launch("j", shell("exec sleep 600")))
    waiting = asyncio.create_task(here.files.grown(log_file(JobId("j"), 1, 0), 0))
    assert not (await asyncio.wait({waiting}, timeout=0.1))[0]
    await here.engine.stop(JobId("j"), 1, 5)
    assert await waiting is False


async def test_logs_are_followed_without_inotify(here: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as another_system:
        another_system.setattr("sys.platform", "darwin")
        await here.restart()
    await test_many_readers_follow_one_log_to_its_end(here)


async def test_who_watches_a_job_learns_of_displays_without_text(here: Workplace) -> None:
    something = asyncio.Event()
    folder = here.job("j") / "output" / ".runai-cell"
    await here.engine.launch(launch("j", shell("exec sleep 600")))
    with here.files.watch(JobId("j"), 1, 1, lambda area: something.set() if area is Area.LOG else None):
        folder.mkdir()
        async with asyncio.timeout(20):
            await something.wait()
            something.clear()
            (folder / "displays.1.jsonl").write_text("{}")
            await something.wait()
    await here.engine.stop(JobId("j"), 1, 5)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
async def test_who_watches_a_job_learns_of_what_it_prints_and_reports(
    here: Workplace, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    with monkeypatch.context() as system:
        system.setattr("sys.platform", platform)
        await here.restart()
    written = set[Area]()
    something = asyncio.Event()

    def wrote(area: Area) -> None:
        written.add(area)
        if written == {Area.LOG, Area.OUTPUT}:
            something.set()

    with here.files.watch(JobId("j"), 1, 1, wrote):
        reports = 'echo line; echo "{}" >> "$RUNAI_OUTPUT_DIR/metrics.jsonl"; exec sleep 600'
        await here.engine.launch(launch("j", shell(reports)))
        async with asyncio.timeout(20):
            await something.wait()
    await here.engine.stop(JobId("j"), 1, 5)


# -- outputs ------------------------------------------------------------------------------------------------


@pytest.fixture
def output(here: Workplace) -> Path:
    folder = here.job("j") / "output"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "model.bin").write_bytes(b"model")
    (folder / "sub" / "deep" / "é.txt").write_bytes(b"deep")
    (here.state_dir / "token").write_text("secret")
    os.symlink(here.state_dir / "token", folder / "link")
    os.symlink(here.state_dir, folder / "links")
    os.symlink("sub", folder / "inner")
    os.mkfifo(folder / "pipe")
    os.link(folder / "model.bin", folder / "hard")
    return folder


async def test_outputs_are_files_and_nothing_else(here: Workplace, output: Path) -> None:
    found = await here.files.list(JobId("j"), Area.OUTPUT)
    assert [(each.path, each.size) for each in found] == [
        ("hard", 5),
        ("model.bin", 5),
        ("sub/deep/é.txt", 4),
    ]
    assert await here.files.list(JobId("none"), Area.OUTPUT) == ()


@pytest.mark.parametrize("path", ["model.bin", "sub/deep/é.txt", "hard"])
async def test_an_output_is_opened_by_its_path(here: Workplace, output: Path, path: str) -> None:
    file = await here.files.open_file(output_file(JobId("j"), path))
    assert await file.read(100) in (b"model", b"deep")
    await file.close()


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            ".",
            "..",
            "../output/model.bin",
            "sub/../model.bin",
            "./model.bin",
            "/etc/passwd",
            "//etc/passwd",
        ),
        *(
            "link",
            "links/token",
            "inner/deep/é.txt",
            "pipe",
            "sub",
            "sub/",
            "model.bin/",
            "model.bin/x",
            "none",
        ),
        *("model.bin\0", "sub//deep", "\udcff"),
    ],
)
async def test_nothing_else_is_opened(here: Workplace, output: Path, path: str) -> None:
    with pytest.raises(NotFound):
        await here.files.open_file(output_file(JobId("j"), path))


@pytest.mark.parametrize("job", ["", ".", "..", "../jobs/j", "j/../j", "a b", "j\0", "-j"])
async def test_only_an_id_names_a_job(here: Workplace, output: Path, job: str) -> None:
    with pytest.raises(NotFound):
        await here.files.open_file(output_file(JobId(job), "model.bin"))
    with pytest.raises(NotFound):
        await here.files.read(log_file(JobId(job), 1, 0), 0, 10)
    with pytest.raises(NotFound):
        await here.files.forget(JobId(job))


async def test_a_link_in_the_place_of_the_output_folder_is_not_followed(here: Workplace, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("secret")
    here.job("j").mkdir()
    os.symlink(tmp_path / "other", here.job("j") / "output")
    with pytest.raises(NotFound):
        await here.files.open_file(output_file(JobId("j"), "file"))
    assert await here.files.list(JobId("j"), Area.OUTPUT) == ()


async def saved(here: Workplace) -> float | None:
    return max((file.modified for file in await here.files.list(JobId("j"), Area.CHECKPOINT)), default=None)


async def test_it_is_seen_when_a_job_last_saved_its_state(here: Workplace) -> None:
    assert await saved(here) is None
    await here.engine.launch(launch("j", shell("mkdir $RUNAI_CHECKPOINT_DIR/a; ln -s /etc $RUNAI_CHECKPOINT_DIR/b")))
    await here.end("j")
    assert await saved(here) is None, "A folder is nothing, and what a link leads to is not the job's."
    before = time.time()
    await here.engine.launch(launch("j", shell("echo 1 > $RUNAI_CHECKPOINT_DIR/a/model"), attempt=2))
    await here.end("j", attempt=2)
    at = await saved(here)
    assert at is not None
    assert before - 1 < at < time.time() + 1
