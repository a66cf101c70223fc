"""After a power cut or on a bad disk: damaged files of a worker cost that worker's attempt and nothing else."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.engines.base import WorkerState
from scheduler.model import JobId
from scheduler.worker import supervisor
from tests.engines.workplace import Workplace, eventually, launch, processes, shell

SLEEP = shell("exec sleep 600")
NOISE = random.Random(1).randbytes(5000)

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "noise": lambda content: NOISE,
    "nested": lambda content: b"[" * 100_000,
    "another type": lambda content: b"[1]",
}
FILES = ("spec.json", "claim", "status.json", "exit.json", "done", "log", "log.times", "supervisor.log", "../stop")


@pytest.fixture
def reboot(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From here on, the engine sees another boot of the machine."""
    return lambda: monkeypatch.setattr(supervisor, "boot", lambda: "12345678-1234-1234-1234-123456789abc")


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A foreign process, with its own group."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    yield process
    process.kill()
    process.wait()


def place(here: Workplace, job: str) -> Path:
    return here.job(job) / "attempts/1/0"


async def power_cut(here: Workplace, *jobs: str) -> None:
    """End all processes of these jobs, which are no longer recorded."""
    await here.engine.close()
    for job in jobs:
        os.kill(here.supervisor(job), signal.SIGKILL)
    await eventually(lambda: processes(here.state_dir) == [])


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
async def test_a_damaged_file_costs_its_job_and_not_the_start(here: Workplace, name: str, damage: str) -> None:
    await here.engine.launch(launch("ended", shell("exit 3")))
    await here.end("ended")
    await here.engine.launch(launch("hurt", shell("exit 3")))
    await here.end("hurt")
    await here.engine.launch(launch("lives", SLEEP))
    await here.engine.launch(launch("well", SLEEP))
    await eventually(lambda: (place(here, "hurt") / "done").exists())
    await here.engine.close()
    for job in ("hurt", "lives"):
        file = place(here, job) / name
        file.write_bytes(DAMAGES[damage](file.read_bytes() if file.exists() else b"{}"))
    await here.restart()
    assert await here.engine.recover([(JobId(job), 1, 1) for job in ("ended", "hurt", "lives", "well")]) == frozenset()
    assert (await here.end("ended")).exit_code == 3
    hurt = await here.end("hurt")
    if name == "exit.json":
        assert (hurt.state, hurt.exit_code) == (WorkerState.LOST, None)
        assert hurt.reason == "it was lost: its file attempts/1/0/exit.json is damaged."
    else:
        assert hurt.exit_code == 3
    assert here.states("well") == [WorkerState.RUNNING]
    assert here.states("lives")[0] is WorkerState.RUNNING  # and may be stopped by now, if there is a `stop`
    for job in ("lives", "well"):
        await here.engine.stop(JobId(job), 1, 5)
        assert (await here.end(job)).exit_code == -15
    assert processes(here.state_dir) == []


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_claim_of_a_worker_that_died_is_a_lost_attempt(here: Workplace, damage: str) -> None:
    await here.engine.launch(launch("j", SLEEP))
    await power_cut(here, "j")
    claim = place(here, "j") / "claim"
    claim.write_bytes(DAMAGES[damage](claim.read_bytes()))
    await here.restart()
    assert await here.engine.recover([(JobId("j"), 1, 1)]) == frozenset()
    assert (await here.end("j")).state is WorkerState.LOST


async def test_after_a_restart_of_the_machine_nothing_that_may_have_run_is_launched_as_the_same_attempt(
    here: Workplace, reboot: Callable[[], None]
) -> None:
    """One job without files on disk, one with an empty claim, one complete; one had ended."""
    await here.engine.launch(launch("whole", SLEEP))
    await here.engine.launch(launch("torn", SLEEP))
    await here.engine.launch(launch("ended", shell("exit 3")))
    await here.end("ended")
    await power_cut(here, "whole", "torn")
    (place(here, "torn") / "claim").write_bytes(b"")
    reboot()
    attempts = [(JobId(job), 1, 1) for job in ("whole", "torn", "gone", "ended")]
    for _ in range(2):  # the same when the scheduler is killed right after its start
        await here.restart()
        assert await here.engine.recover(attempts) == frozenset()
        for job in ("whole", "torn", "gone"):
            lost = await here.end(job)
            assert lost.state is WorkerState.LOST
            assert lost.reason == "it was lost when the machine was restarted."
        assert (await here.end("ended")).exit_code == 3
    assert await here.engine.recover([(JobId("new"), 1, 1)]) == {("new", 1)}


async def test_a_damaged_boot_file_loses_no_running_worker(here: Workplace) -> None:
    await here.engine.launch(launch("j", SLEEP))
    (here.state_dir / "boot").write_bytes(NOISE)
    await here.restart()
    assert await here.engine.recover([(JobId("j"), 1, 1)]) == frozenset()
    assert here.states("j") == [WorkerState.RUNNING]
    await here.engine.stop(JobId("j"), 1, 5)
    await here.end("j")


@pytest.mark.parametrize("number", ["0", "1", "-1", "4194305", "2147483647", "99999999999999999999", "bystander"])
async def test_a_forged_pid_in_a_claim_neither_keeps_a_job_alive_nor_kills_others(
    here: Workplace, bystander: subprocess.Popen[bytes], number: str
) -> None:
    await here.engine.launch(launch("stopped", SLEEP))
    await here.engine.launch(launch("ends", SLEEP))
    ours = here.supervisor("ends")
    for job in ("stopped", "ends"):
        (place(here, job) / "claim").write_text(number.replace("bystander", str(bystander.pid)))
    await here.restart()
    assert await here.engine.recover([(JobId("stopped"), 1, 1), (JobId("ends"), 1, 1)]) == frozenset()
    await here.engine.stop(JobId("stopped"), 1, 5)
    assert (await here.end("stopped")).exit_code == -15
    os.kill(ours, signal.SIGKILL)
    assert (await here.end("ends")).exit_code is None
    assert bystander.poll() is None


@pytest.mark.parametrize("number", ["0", "1", "-1", "99999999999999999999", "1e400", "NaN", "true", "bystander"])
async def test_a_process_in_a_status_is_killed_only_if_it_belongs_to_the_job(
    here: Workplace, bystander: subprocess.Popen[bytes], number: str
) -> None:
    await here.engine.launch(launch("j", SLEEP))
    await power_cut(here, "j")
    status = {"identity": supervisor.identity(bystander.pid), "started": time.time()}
    text = json.dumps(status)[:-1] + f', "pid": {number.replace("bystander", str(bystander.pid))}}}'
    (place(here, "j") / "status.json").write_text(text)
    await here.restart()
    await here.engine.recover([(JobId("j"), 1, 1)])
    assert (await here.end("j")).state is WorkerState.LOST
    assert bystander.poll() is None


@pytest.mark.parametrize("instant", ["NaN", "Infinity", "-5", "1e18", "1" + 400 * "0", '"soon"'])
async def test_times_in_the_future_are_not_trusted(here: Workplace, instant: str) -> None:
    await here.engine.launch(launch("runs", SLEEP))
    await here.engine.launch(launch("ended", shell("exit 3")))
    await here.end("ended")
    (place(here, "runs") / "status.json").write_text(f'{{"started": {instant}}}')
    (place(here, "ended") / "exit.json").write_text(f'{{"exit_code": 3, "reason": "", "ended": {instant}}}')
    (here.job("runs") / "attempts/1/stop").write_text(f'{{"grace": {instant}, "end": {instant}}}')
    await here.restart()
    await here.engine.recover([(JobId("runs"), 1, 1), (JobId("ended"), 1, 1)])
    await here.end("ended")
    assert (await here.end("runs")).exit_code == -15
    assert all(0 < each.at <= time.time() for each in here.reports)


def test_a_grace_period_is_at_most_the_jobs_own(tmp_path: Path) -> None:
    folder = tmp_path / "1" / "0"
    folder.mkdir(parents=True)
    for written, grace in [
        ("{}", 7),
        ('{"grace": 2}', 2),
        ('{"grace": 1e18}', 7),
        ('{"grace": NaN}', 7),
        ("[", 7),
    ]:
        (tmp_path / "1" / "stop").write_text(written)
        assert supervisor.grace_of(str(folder), {"grace": 7}) == grace


async def test_invalid_markers_are_ignored(here: Workplace) -> None:
    await here.engine.launch(launch("j", SLEEP))
    names = [
        b"j.\xb2",
        "j.²".encode(),
        "j.٣".encode(),
        b"j." + b"9" * 200,
        b"\xff\xfe.1",
        b"..1",
        b"j",
        b".j.1.swp",
    ]
    for name in names:
        Path(os.fsdecode(os.fsencode(here.state_dir / "running") + b"/" + name)).touch()
    (here.job("j") / "attempts/1/²").mkdir()
    (here.state_dir / "running/folder.1").mkdir()
    await here.restart()
    await here.engine.recover([(JobId("j"), 1, 1)])
    assert here.states("j") == [WorkerState.RUNNING]
    await here.engine.stop(JobId("j"), 1, 5)
    await here.end("j")


async def test_a_worker_whose_files_cannot_be_read_is_killed_and_lost(here: Workplace) -> None:
    await here.engine.launch(launch("hurt", SLEEP))
    await here.engine.launch(launch("well", SLEEP))
    await here.engine.close()
    (here.job("hurt")).rename(here.state_dir / "elsewhere")
    here.job("hurt").write_text("a file in the place of a job's folder")
    await here.restart()
    await here.engine.recover([(JobId("hurt"), 1, 1), (JobId("well"), 1, 1)])
    lost = await here.end("hurt")
    assert lost.state is WorkerState.LOST
    assert lost.reason == "it was lost: its files cannot be read (Not a directory)."
    assert [each.environment["RUNAI_JOB_ID"] for each in processes(here.state_dir)] == ["well"]
