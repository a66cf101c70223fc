"""After `kill -9` of any process at any instant: every worker is found or never started, and none runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from scheduler.engines.base import Launch, WorkerState
from scheduler.engines.local.launcher import Launcher
from scheduler.errors import Conflict, Unavailable
from scheduler.model import JobId
from tests.engines.workplace import (
    PATIENCE,
    Workplace,
    eventually,
    launch,
    processes,
    python,
    shell,
    supervisors,
)

COUNT = shell('echo $RUNAI_RANK >> "$RUNAI_OUTPUT_DIR/out"; exec sleep 600')
SLEEP = shell("exec sleep 600")


class KillableScheduler:
    """A scheduler in a separate process (`killable_scheduler.py`)."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def begin(self, **what: Any) -> int:
        """Begin a launch; returns its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        return int(await self.line())

    async def line(self) -> bytes:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stdout.readline()).strip()

    async def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        try:
            while await self.line() != b"dead":
                pass
        except TimeoutError:
            pytest.fail(
                f"{pid} was killed and is still there:\n{standing(pid)}\nits parent:\n{standing(self._process.pid)}"
            )


def standing(pid: int) -> str:
    """The kernel's view of a process and its threads: where each of them is."""
    told = [f"{pid} is gone"]
    for thread in sorted(Path(f"/proc/{pid}/task").glob("*")):
        for name in ("stat", "wchan", "syscall", "stack"):
            with contextlib.suppress(OSError):
                told.append(f"{thread.name} {name}: {(thread / name).read_text().strip()}")
    return "\n".join(told[1:] or told)


@pytest.fixture
async def killable_scheduler() -> AsyncIterator[KillableScheduler]:
    root = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__.replace("test_recovery", "killable_scheduler"), cwd=root, stdin=PIPE, stdout=PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    yield KillableScheduler(process)
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


def _is_running(here: Workplace, rank: int) -> bool:
    return here.states("j", rank) == [WorkerState.RUNNING]


@pytest.mark.parametrize("seed", range(4))
async def test_killed_while_it_launches_each_worker_runs_once(
    tmp_path: Path, killable_scheduler: KillableScheduler, seed: int
) -> None:
    """Ten instants each, spread over the duration of a launch; sometimes the launcher is killed as well."""
    chance = random.Random(seed)
    for i in range(10):
        here = Workplace(tmp_path / f"{i}")
        pid = await killable_scheduler.begin(
            state_dir=str(here.state_dir), job="j", workers=3, command=COUNT, stop=None
        )
        await asyncio.sleep(chance.uniform(0, 0.02))
        if chance.random() < 0.3:
            for launcher in supervisors(here.state_dir):
                if launcher.parent == pid:
                    os.kill(launcher.pid, signal.SIGKILL)
        await killable_scheduler.kill(pid)
        await here.open()
        again = await here.engine.recover([(JobId("j"), 1, 3)])
        lost = [rank for rank in range(3) if WorkerState.LOST in here.states("j", rank)]
        assert not lost
        if again:
            assert here.reports == []
            await here.engine.launch(launch("j", COUNT, workers=3))
        for rank in range(3):
            await here.until(partial(_is_running, here, rank))
        await here.counted("j", 3)
        await here.engine.stop(JobId("j"), 1, 5)
        for rank in range(3):
            assert (await here.end("j", rank)).exit_code == -15
        assert sorted(here.output("j").split()) == ["0", "1", "2"]
        assert processes(here.state_dir) == []
        await here.close()


async def test_after_a_kill_unknown_workers_are_ended(tmp_path: Path, killable_scheduler: KillableScheduler) -> None:
    chance = random.Random(7)
    for i in range(10):
        here = Workplace(tmp_path / f"{i}")
        pid = await killable_scheduler.begin(
            state_dir=str(here.state_dir), job="j", workers=3, command=SLEEP, stop=None
        )
        await asyncio.sleep(chance.uniform(0, 0.02))
        await killable_scheduler.kill(pid)
        await here.open()
        assert await here.engine.recover([]) == frozenset()
        assert processes(here.state_dir) == []
        assert here.reports == []
        await asyncio.sleep(0.02)  # nothing was in flight, either
        assert processes(here.state_dir) == []
        await here.close()


async def test_a_grace_period_ends_although_the_scheduler_is_dead(
    here: Workplace, killable_scheduler: KillableScheduler
) -> None:
    await here.close()
    deaf = python(
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "open(os.environ['RUNAI_OUTPUT_DIR'] + '/out', 'w').write('ready\\n'); time.sleep(600)"
    )
    pid = await killable_scheduler.begin(state_dir=str(here.state_dir), job="j", workers=1, command=deaf, stop=0.4)
    assert await killable_scheduler.line() == b"done"
    await killable_scheduler.kill(pid)
    await eventually(lambda: (here.job("j") / "attempts/1/0/exit.json").exists())
    await eventually(lambda: processes(here.state_dir) == [])
    await here.restart()
    assert await here.engine.recover([(JobId("j"), 1, 1)]) == frozenset()
    assert (await here.end("j")).exit_code in (-9, -15)  # -15: SIGTERM came before it was deaf


async def test_a_stop_that_was_written_down_and_not_yet_told_is_told_after_the_restart(
    here: Workplace,
) -> None:
    await here.engine.launch(launch("j", SLEEP))
    (here.job("j") / "attempts/1/stop").write_text(json.dumps({"grace": 5, "end": time.time() + 5}))
    await here.restart()
    assert (
        await here.engine.recover([(JobId("j"), 1, 2)]) == frozenset()
    )  # rank 1 was never launched, and never will be
    assert (await here.end("j", 0)).exit_code == -15
    assert (await here.end("j", 1)).exit_code is None


async def test_all_workers_are_found_after_a_restart(here: Workplace) -> None:
    await here.engine.launch(launch("runs", SLEEP))
    await here.engine.launch(launch("ends", shell("sleep 0.1; exit 4")))
    await here.engine.launch(launch("lost", SLEEP))
    await here.engine.launch(launch("unnamed", SLEEP))
    await here.close()
    os.kill(here.supervisor("lost"), signal.SIGKILL)
    await eventually(lambda: (here.job("ends") / "attempts/1/0/done").exists())
    await here.restart()
    never = await here.engine.recover([(JobId(job), 1, 1) for job in ("runs", "ends", "lost", "never")])
    assert never == {("never", 1)}
    assert here.states("runs") == [WorkerState.RUNNING]
    assert here.states("ends") == [WorkerState.RUNNING, WorkerState.EXITED]
    assert (await here.end("ends")).exit_code == 4
    assert (await here.end("lost")).state is WorkerState.LOST
    assert here.states("unnamed") == []
    assert {process.environment["RUNAI_JOB_ID"] for process in processes(here.state_dir)} == {"runs"}
    await here.engine.stop(JobId("runs"), 1, 5)
    assert (await here.end("runs")).exit_code == -15


async def started_in_part(here: Workplace, gang: Launch) -> None:
    """The scheduler dies after starting the worker of rank 1, and no other."""
    start = Launcher.start

    async def only_one(launcher: Launcher, folder: Path) -> None:
        if folder.name != "1":
            await asyncio.Event().wait()
        await start(launcher, folder)

    with patch.object(Launcher, "start", only_one):
        launching = asyncio.create_task(here.engine.launch(gang))
        await eventually((here.job(gang.job) / "attempts/1/1/status.json").exists)
        launching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await launching


async def test_a_gang_that_started_in_part_is_completed(here: Workplace) -> None:
    await started_in_part(here, launch("j", COUNT, workers=3))
    await here.restart()
    assert await here.engine.recover([(JobId("j"), 1, 3)]) == frozenset()
    assert [here.states("j", rank) for rank in range(3)] == [[WorkerState.RUNNING]] * 3
    await here.counted("j", 3)
    await here.engine.stop(JobId("j"), 1, 5)
    for rank in range(3):
        await here.end("j", rank)
    assert sorted(here.output("j").split()) == ["0", "1", "2"]


async def test_a_gang_that_started_in_part_and_was_to_stop_is_not_completed(here: Workplace) -> None:
    await started_in_part(here, launch("j", COUNT, workers=2))
    (here.job("j") / "attempts/1/stop").write_text(json.dumps({"grace": 5, "end": time.time() + 5}))
    await here.restart()
    assert await here.engine.recover([(JobId("j"), 1, 2)]) == frozenset()
    assert (await here.end("j", 0)).exit_code is None
    assert (await here.end("j", 1)).exit_code == -15


async def test_two_engines_do_not_share_a_folder(here: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    from scheduler.engines.local import launcher

    monkeypatch.setattr(launcher, "READY", 0.5)
    other = Workplace(here.state_dir)
    with pytest.raises(Unavailable, match="another scheduler"):
        await other.open()
    await here.engine.launch(launch("j", shell("true")))
    assert (await here.end("j")).exit_code == 0


async def test_a_job_is_forgotten_when_nothing_of_it_runs(here: Workplace) -> None:
    await here.engine.launch(launch("j", shell('mkdir -p "$RUNAI_OUTPUT_DIR/a/b"; chmod -R 0 .; exec sleep 600')))
    with pytest.raises(Conflict):
        await here.files.forget(JobId("j"))
    await here.engine.stop(JobId("j"), 1, 5)
    await here.end("j")
    await here.files.forget(JobId("j"))
    await here.files.forget(JobId("j"))
    assert list((here.state_dir / "jobs").iterdir()) == []
    assert list((here.state_dir / "running").iterdir()) == []


async def test_a_job_whose_launch_failed_half_way_is_forgotten(here: Workplace) -> None:
    (here.job("j") / "attempts/1").mkdir(parents=True)
    (here.job("j") / "attempts/1/1").write_text("a file in the place of a worker's folder")
    with pytest.raises(Unavailable):
        await here.engine.launch(launch("j", SLEEP, workers=2))
    assert processes(here.state_dir) == []
    await here.files.forget(JobId("j"))
    assert list((here.state_dir / "jobs").iterdir()) == []
    assert list((here.state_dir / "running").iterdir()) == []


async def test_kept_jobs_are_listed_and_partial_deletions_completed(here: Workplace) -> None:
    for job in ("j", "k"):
        await here.engine.launch(launch(job, shell('echo x > "$RUNAI_OUTPUT_DIR/file"')))
        await here.end(job)
    assert await here.files.kept() == {"j", "k"}
    os.rename(here.job("j"), here.state_dir / "jobs" / ".j-0123")  # the state after a killed scheduler
    await here.restart()
    assert await here.files.kept() == {"k"}
    assert [path.name for path in (here.state_dir / "jobs").iterdir()] == ["k"]
