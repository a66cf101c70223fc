"""A worker is started as specified, and its end is reported correctly."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.engines.base import WorkerState
from scheduler.engines.files import log_file
from scheduler.engines.local import launcher
from scheduler.errors import Invalid, Unavailable
from scheduler.model import Fault, JobId, Node, NodeName, WorkerPlacement
from tests.engines.workplace import Workplace, eventually, launch, processes, python, shell, supervisors

DUMP = python(
    "import json, os; json.dump(dict(os.environ), open(os.environ['RUNAI_OUTPUT_DIR'] + '/out' + "
    "os.environ['RUNAI_RANK'], 'w'))"
)


@pytest.mark.parametrize(
    ("code", "exit_code", "reason"),
    [
        ("exit 0", 0, ""),
        ("exit 1", 1, ""),
        ("exit 127", 127, ""),
        ("exit 255", 255, ""),
        ("kill -KILL $$", -9, "it was killed by SIGKILL; perhaps the machine ran out of memory."),
        ("kill -SEGV $$", -11, ""),
        ("kill -TERM $$", -15, ""),
        ("kill -USR1 $$", -10, ""),
    ],
)
async def test_every_exit_status_comes_back(here: Workplace, code: str, exit_code: int, reason: str) -> None:
    await here.engine.launch(launch("j", shell(code)))
    end = await here.end("j")
    assert here.states("j") == [WorkerState.RUNNING, WorkerState.EXITED]
    assert (end.exit_code, end.reason) == (exit_code, reason)


async def test_a_worker_finds_its_contract_in_the_environment(here: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "JUPYTERHUB_API_TOKEN",
        "RUNAI_TOKEN",
        "CONFIGPROXY_AUTH_TOKEN",
        "MY_API_TOKEN",
        "RUNAI_DB_URL",
    ):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    node = Node(NodeName("here-train"), 2, devices=("GPU-a", "GPU-b"))
    user = {"MINE": "1", "RUNAI_RANK": "a lie", "CUDA_VISIBLE_DEVICES": "all of them"}
    await here.engine.launch(launch("j", DUMP, workers=2, node=node, env=user))
    await here.end("j", 0)
    await here.end("j", 1)
    found = json.loads(here.output("j", "out1"))
    assert "secret" not in found.values()
    assert {name: found[name] for name in found if name.startswith(("RUNAI_", "CUDA_"))} == {
        "CUDA_VISIBLE_DEVICES": "GPU-b",
        "RUNAI_GPUS": "GPU-b",
        "RUNAI_JOB_ID": "j",
        "RUNAI_JOB_NAME": "name of j",
        "RUNAI_PROJECT": "default",
        "RUNAI_ATTEMPT": "1",
        "RUNAI_RANK": "1",
        "RUNAI_WORLD_SIZE": "2",
        "RUNAI_CHECKPOINT_DIR": str(here.job("j") / "checkpoint"),
        "RUNAI_OUTPUT_DIR": str(here.job("j") / "output"),
        "RUNAI_SAVE_REQUEST": str(here.job("j") / "save.1"),
    }
    assert (found["PYTHONUNBUFFERED"], found["LANG"], found["MINE"]) == ("1", "C.UTF-8", "1")
    assert found["PATH"].split(os.pathsep)[0] == os.path.dirname(sys.executable)


async def test_a_worker_without_gpus_sees_none(here: Workplace) -> None:
    gpuless = replace(launch("j", DUMP), workers=(WorkerPlacement(NodeName("here-train")),))
    await here.engine.launch(gpuless)
    await here.end("j")
    assert json.loads(here.output("j", "out0"))["CUDA_VISIBLE_DEVICES"] == ""


async def test_a_worker_starts_with_ordinary_signals_and_nothing_open(here: Workplace) -> None:
    code = (
        "import os, signal; names = sorted(os.listdir('/proc/self/fd')); "
        "odd = [n for n in signal.valid_signals() if n not in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ) "
        "and signal.getsignal(n) is signal.SIG_IGN]; "
        "print(len(names), odd, signal.pthread_sigmask(0, ()), os.getpid() == os.getpgid(0), os.read(0, 1))"
    )
    await here.engine.launch(launch("j", python(code)))
    await here.end("j")
    assert await here.files.read(log_file(JobId("j"), 1, 0), 0, 1000) == b"4 [] set() True b''\n"


async def test_output_and_errors_are_one_log(here: Workplace) -> None:
    await here.engine.launch(launch("j", shell("echo one; echo two >&2; printf three")))
    await here.end("j")
    assert await here.files.read(log_file(JobId("j"), 1, 0), 0, 1000) == b"one\ntwo\nthree"
    assert await here.files.read(log_file(JobId("j"), 1, 0), 4, 3) == b"two"
    assert await here.files.read(log_file(JobId("j"), 1, 0), 99, 3) == b""
    assert await here.files.read(log_file(JobId("j"), 2, 0), 0, 3) == b""


async def test_the_checkpoint_folder_is_the_same_in_every_attempt(here: Workplace) -> None:
    save = shell('cat "$RUNAI_CHECKPOINT_DIR/at" 2>/dev/null; echo $RUNAI_ATTEMPT > "$RUNAI_CHECKPOINT_DIR/at"')
    for attempt in (1, 2):
        await here.engine.launch(launch("j", save, attempt=attempt))
        await here.end("j", attempt=attempt)
    assert await here.files.read(log_file(JobId("j"), 2, 0), 0, 10) == b"1\n"


# -- failing starts -----------------------------------------------------------------------------------------


async def _refused(here: Workplace, *command: str) -> str:
    await here.engine.launch(launch("j", command, workers=2))
    for rank in (0, 1):
        end = await here.end("j", rank)
        assert here.states("j", rank) == [WorkerState.EXITED]
        assert (end.exit_code, end.fault) == (127, Fault.JOB)
        assert (await here.files.read(log_file(JobId("j"), 1, rank), 0, 1000)).decode() == f"{end.reason}\n"
    assert processes(here.state_dir) == []
    return end.reason


async def test_a_command_that_is_not_there(here: Workplace) -> None:
    assert await _refused(here, "train.py") == "Command not found: `train.py` in the folders of PATH."


async def test_a_path_that_is_not_there(here: Workplace) -> None:
    assert await _refused(here, "./train.py") == "Command not found: `./train.py`."


async def _with_script(here: Workplace, content: str, mode: int) -> None:
    work = here.job("j") / "work"
    work.mkdir(parents=True)
    (work / "train.py").write_text(content)
    (work / "train.py").chmod(mode)


async def test_an_interpreter_that_is_not_there(here: Workplace) -> None:
    await _with_script(here, "#!/no/such/python\n", 0o755)
    assert (
        await _refused(here, "./train.py") == "The first line of `./train.py` names an interpreter that does not exist."
    )


async def test_a_script_that_is_not_executable(here: Workplace) -> None:
    await _with_script(here, "print(1)\n", 0o644)
    assert (
        await _refused(here, "./train.py")
        == "`./train.py` is not executable; run chmod +x on it, or put its interpreter in front of it."
    )


async def test_a_script_that_does_not_say_what_runs_it(here: Workplace) -> None:
    await _with_script(here, "print(1)\n", 0o755)
    assert await _refused(here, "./train.py") == "`./train.py` could not be started (Exec format error)."


async def test_a_folder_is_no_command(here: Workplace) -> None:
    (here.job("j") / "work" / "src").mkdir(parents=True)
    assert await _refused(here, "./src") == "`./src` is a folder, not a command."


async def test_a_working_directory_that_is_none(here: Workplace) -> None:
    here.job("j").mkdir(parents=True)
    (here.job("j") / "work").write_text("a file")
    with pytest.raises(Unavailable):
        await here.engine.launch(launch("j", shell("true")))
    assert here.reports == []


async def test_a_bundle_that_is_not_there(here: Workplace) -> None:
    with pytest.raises(Invalid):
        await here.engine.launch(launch("j", shell("true"), bundle="0" * 64))
    assert here.reports == []


async def test_a_worker_that_cannot_be_started_is_told_and_never_starts(here: Workplace) -> None:
    """It cannot open its log, which is not the job's fault. The others run, until the receiver of the report stops
    them."""
    (here.job("j") / "attempts" / "1" / "2" / "log").mkdir(parents=True)
    await here.engine.launch(launch("j", shell("exec sleep 600"), workers=4))
    lost = await here.end("j", 2)
    assert (lost.state, lost.fault) == (WorkerState.LOST, Fault.ENGINE)
    assert [here.states("j", rank) for rank in (0, 1, 3)] == [[WorkerState.RUNNING]] * 3
    await here.engine.stop(JobId("j"), 1, 5)
    for rank in (0, 1, 3):
        await here.end("j", rank)
    assert processes(here.state_dir) == []


# -- once ---------------------------------------------------------------------------------------------------

COUNT = shell('echo $$ >> "$RUNAI_OUTPUT_DIR/out"; exec sleep 600')


async def test_asked_twice_it_starts_once(here: Workplace) -> None:
    attempt = launch("j", COUNT, workers=3)
    await asyncio.gather(*(here.engine.launch(attempt) for _ in range(4)))
    await here.engine.launch(attempt)
    await here.counted("j", 3)
    await here.engine.stop(JobId("j"), 1, 5)
    for rank in range(3):
        await here.end("j", rank)
    assert len(here.output("j").split()) == 3


async def test_asked_again_after_its_end_it_tells_the_end_again(here: Workplace) -> None:
    attempt = launch("j", shell('echo >> "$RUNAI_OUTPUT_DIR/out"; exit 3'))
    await here.engine.launch(attempt)
    await here.end("j")
    await here.restart()
    await here.engine.launch(attempt)
    assert (await here.end("j")).exit_code == 3
    assert here.output("j") == "\n"


async def test_a_launcher_that_is_killed_is_replaced(here: Workplace) -> None:
    await here.engine.launch(launch("a", COUNT))
    (process,) = [each for each in supervisors(here.state_dir) if each.parent == os.getpid()]
    os.kill(process.pid, signal.SIGKILL)
    await here.engine.launch(launch("b", COUNT, workers=4))
    assert [here.states("a"), *(here.states("b", rank) for rank in range(4))] == [[WorkerState.RUNNING]] * 5


@pytest.mark.parametrize("kills", [1, launcher.TRIES])
async def test_a_launcher_that_is_killed_while_it_starts_is_started_again(
    here: Workplace, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    start, started = launcher.spawn, list[subprocess.Popen[bytes]]()

    def killed_at_once(*given: Any) -> subprocess.Popen[bytes]:
        started.append(start(*given))
        if len(started) <= kills:
            started[-1].kill()
        return started[-1]

    await here.close()
    monkeypatch.setattr(launcher, "spawn", killed_at_once)
    if kills == launcher.TRIES:
        with pytest.raises(Unavailable, match="ended 3 times before it was ready, the last time with status -9"):
            await here.open()
    else:
        await here.open()
        await here.engine.launch(launch("a", COUNT))
        assert here.states("a") == [WorkerState.RUNNING]
        assert len(started) == kills + 1


async def test_a_log_is_cut_at_its_limit_and_says_so(tmp_path: Path) -> None:
    from scheduler.engines.local.engine import LocalEngine

    here = Workplace(tmp_path / "state")
    here.engine = LocalEngine(here.state_dir, log_limit=10_000)
    await here.open()
    flood = shell('i=0; while [ ! -e "$RUNAI_OUTPUT_DIR/enough" ]; do echo $i; i=$((i+1)); done; sleep 600')
    await here.engine.launch(launch("j", flood))
    log = here.job("j") / "attempts/1/0/log"
    await eventually(lambda: b"has reached its limit" in log.read_bytes()[10_000:])
    (here.job("j") / "output" / "enough").touch()
    await eventually(lambda: log.stat().st_size < 10_200)
    assert (await here.files.read(log_file(JobId("j"), 1, 0), 0, 4)) == b"0\n1\n"
    await here.engine.stop(JobId("j"), 1, 0)
    await here.end("j")
    await here.close()
