"""Stopping: SIGTERM, then SIGKILL, for whole process trees, whichever process dies meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from scheduler.engines.base import WorkerState
from scheduler.model import JobId
from tests.engines.workplace import Workplace, all_processes, eventually, launch, processes, python, shell

SAVES = python(
    """
import os, signal, sys, time
out = os.environ["RUNAI_OUTPUT_DIR"]
def save(*_):
    time.sleep(0.2)
    open(os.environ["RUNAI_CHECKPOINT_DIR"] + "/state", "w").write("saved")
    sys.exit(7)
signal.signal(signal.SIGTERM, save)
with open(out + "/out", "w") as file:  # a file that closes itself would swallow the handler's exit
    file.write("ready\\n")
while True: time.sleep(600)
"""
)

DEAF = python(
    """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.environ["RUNAI_OUTPUT_DIR"] + "/out", "w").write("ready\\n")
while True: time.sleep(600)
"""
)

TREE = python(
    """
import os, signal, time
# A child in the group, one in a session of its own, an orphan in another, and all of them deaf.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def child(new_session, orphan):
    if os.fork() == 0:
        if orphan and os.fork():
            os._exit(0)
        if new_session:
            os.setsid()
        with open(os.environ["RUNAI_OUTPUT_DIR"] + "/pids", "a") as file:
            file.write(f"{os.getpid()}\\n")
        while True: time.sleep(600)
child(False, False); child(True, False); child(False, True); child(True, True)
while open(os.environ["RUNAI_OUTPUT_DIR"] + "/pids", "a+").tell() == 0 or sum(
    1 for _ in open(os.environ["RUNAI_OUTPUT_DIR"] + "/pids")) < 4: time.sleep(0.01)
open(os.environ["RUNAI_OUTPUT_DIR"] + "/out", "w").write("ready\\n")
if "END" not in os.environ:
    while True: time.sleep(600)
os._exit(5)
"""
)


async def test_a_worker_saves_its_state_within_its_grace_period(here: Workplace) -> None:
    await here.engine.launch(launch("j", SAVES))
    await here.output_of("j")
    await here.engine.stop(JobId("j"), 1, 30)
    end = await here.end("j")
    assert (end.exit_code, end.reason) == (7, "it was stopped.")
    assert (here.job("j") / "checkpoint/state").read_text() == "saved"


async def test_a_worker_that_ignores_sigterm_is_killed_after_its_grace_period(here: Workplace) -> None:
    await here.engine.launch(launch("j", DEAF))
    await here.output_of("j")
    asked = time.time()
    await here.engine.stop(JobId("j"), 1, 0.5)
    end = await here.end("j")
    assert (end.exit_code, end.reason) == (-9, "it was killed at the end of its grace period.")
    assert 0.5 <= end.at - asked < 3


async def test_the_earlier_end_holds(here: Workplace) -> None:
    await here.engine.launch(launch("j", DEAF))
    await here.output_of("j")
    await here.engine.stop(JobId("j"), 1, 600)
    await here.engine.stop(JobId("j"), 1, 0.1)
    await here.engine.stop(JobId("j"), 1, 600)
    assert (await here.end("j")).exit_code == -9


async def test_a_suspended_worker_receives_the_stop(here: Workplace) -> None:
    await here.engine.launch(launch("j", SAVES))
    await here.output_of("j")
    os.kill(processes(here.state_dir)[0].pid, signal.SIGSTOP)
    await here.engine.stop(JobId("j"), 1, 30)
    assert (await here.end("j")).exit_code == 7


async def test_every_process_of_a_worker_is_gone_when_its_end_is_told(here: Workplace) -> None:
    await here.engine.launch(launch("j", TREE))
    await here.output_of("j")
    assert len(processes(here.state_dir)) == 5
    await here.engine.stop(JobId("j"), 1, 0.2)
    assert (await here.end("j")).exit_code == -9
    assert processes(here.state_dir) == []


async def test_child_processes_end_with_their_worker(here: Workplace) -> None:
    await here.engine.launch(launch("j", TREE, env={"END": "1"}))
    end = await here.end("j")
    assert (end.exit_code, end.reason) == (5, "")
    assert processes(here.state_dir) == []


async def test_children_may_save_themselves_after_a_shell_that_dies_at_once(here: Workplace) -> None:
    """`sh -c` does not wait for its child when it is stopped; the grace period holds for all processes."""
    saves = {"PYTHON": SAVES[0], "CODE": SAVES[-1]}
    await here.engine.launch(launch("j", shell('"$PYTHON" -I -S -c "$CODE" & wait'), env=saves))
    await here.output_of("j")
    await here.engine.stop(JobId("j"), 1, 30)
    assert (await here.end("j")).exit_code == -15
    assert (here.job("j") / "checkpoint/state").read_text() == "saved"


async def test_stopped_before_it_was_launched_it_never_starts(here: Workplace) -> None:
    await here.engine.stop(JobId("j"), 1, 5)
    await here.engine.launch(launch("j", DEAF, workers=2))
    for rank in (0, 1):
        end = await here.end("j", rank)
        assert (end.state, end.exit_code, end.reason) == (
            WorkerState.EXITED,
            None,
            "it was stopped before it started.",
        )
    assert not (here.job("j") / "output/out").exists()


@pytest.mark.parametrize("delay", [0, 0.001, 0.002, 0.004, 0.008, 0.016])
async def test_stopped_while_it_starts_nothing_is_left(here: Workplace, delay: float) -> None:
    starting = asyncio.create_task(here.engine.launch(launch("j", shell("exec sleep 600"), workers=6)))
    await asyncio.sleep(delay)
    await here.engine.stop(JobId("j"), 1, 5)
    stopped = time.time()
    await starting
    for rank in range(6):
        end = await here.end("j", rank)
        assert end.state is WorkerState.EXITED
        assert end.exit_code in (None, -15)
        begun = [each.at for each in here.of("j", rank) if each.state is WorkerState.RUNNING]
        assert all(at <= stopped for at in begun)  # nothing starts after `stop` has returned
        assert bool(begun) == (end.exit_code is not None)
    assert processes(here.state_dir) == []


# -- processes that die meanwhile ---------------------------------------------------------------------------


async def test_a_killed_worker_is_reported_as_killed(here: Workplace) -> None:
    await here.engine.launch(launch("j", DEAF))
    await here.output_of("j")
    os.kill(processes(here.state_dir)[0].pid, signal.SIGKILL)
    assert (await here.end("j")).exit_code == -9


async def test_a_killed_supervisor_takes_its_worker_with_it(here: Workplace) -> None:
    await here.engine.launch(launch("j", TREE))
    await here.output_of("j")
    os.kill(here.supervisor("j"), signal.SIGKILL)
    end = await here.end("j")
    assert (end.state, end.exit_code) == (WorkerState.LOST, None)
    assert processes(here.state_dir) == []


async def test_a_killed_supervisor_takes_its_worker_with_it_while_nobody_looks(here: Workplace) -> None:
    await here.engine.launch(launch("j", DEAF))
    await here.output_of("j")
    await here.close()
    os.kill(here.supervisor("j"), signal.SIGKILL)
    await eventually(lambda: processes(here.state_dir) == [])
    await here.restart()
    assert await here.engine.recover([(JobId("j"), 1, 1)]) == frozenset()
    assert (await here.end("j")).state is WorkerState.LOST


async def test_an_exit_status_survives_its_supervisor(here: Workplace) -> None:
    """The worker has ended, its deaf children still run in the grace period, and the supervisor is killed."""
    leaves = python(
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    open(os.environ['RUNAI_OUTPUT_DIR'] + '/out', 'w').write('ready\\n')\n"
        "    while True: time.sleep(600)\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(3))\n"
        "time.sleep(600)"
    )
    await here.engine.launch(launch("j", leaves))
    await here.output_of("j")
    await here.engine.stop(JobId("j"), 1, 600)
    await eventually(lambda: (here.job("j") / "attempts/1/0/exit.json").exists())
    assert len(processes(here.state_dir)) == 1
    os.kill(here.supervisor("j"), signal.SIGKILL)
    assert (await here.end("j")).exit_code == 3
    assert processes(here.state_dir) == []


async def test_a_reused_pid_is_not_signalled(here: Workplace) -> None:
    """The process in `status.json` is killed only if it is still the same one."""
    await here.engine.launch(launch("j", shell("exec sleep 600")))
    await here.close()
    os.kill(here.supervisor("j"), signal.SIGKILL)
    await eventually(lambda: processes(here.state_dir) == [])
    stranger = await asyncio.create_subprocess_exec("sleep", "600", process_group=0)
    status = here.job("j") / "attempts/1/0/status.json"
    text = status.read_text()
    number = text.split('"pid": ')[1].split(",")[0]
    status.write_text(text.replace(f'"pid": {number}', f'"pid": {stranger.pid}'))
    await here.restart()
    await here.engine.recover([(JobId("j"), 1, 1)])
    assert (await here.end("j")).state is WorkerState.LOST
    assert stranger.pid in {process.pid for process in all_processes()}
    stranger.kill()
    await stranger.wait()


async def test_sigterm_from_elsewhere_is_a_stop_with_the_jobs_own_grace_period(here: Workplace) -> None:
    await here.engine.launch(launch("j", SAVES, grace=20))
    await here.output_of("j")
    os.kill(here.supervisor("j"), signal.SIGTERM)
    assert (await here.end("j")).exit_code == 7
