"""The contract of engines, checked for each of them: launch, report, stop, recover, files, nodes, leadership."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler.engines.base import Seat, WorkerState
from scheduler.engines.files import Area, log_file, output_file
from scheduler.errors import Conflict, NotFound
from scheduler.model import Fault, JobId, Node, NodeName, Pool, SessionId, UserName, WorkerPlacement
from tests.engines.act import DEAF, SAVES, Act
from tests.engines.backends import BACKENDS, BackendSetup, Scheduler
from tests.engines.scripted import NO_SUCH_COMMAND
from tests.engines.workplace import PATIENCE, launch

RUNS_AND_ENDS = [WorkerState.RUNNING, WorkerState.EXITED]


@pytest.fixture(params=BACKENDS)
def setup(request: pytest.FixtureRequest, tmp_path: Path) -> BackendSetup:
    (tmp_path / "state").mkdir(mode=0o700)
    return BACKENDS[request.param](tmp_path / "state")


@pytest.fixture
async def here(setup: BackendSetup) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(setup)
    await scheduler.open()
    await scheduler.backend.engine.recover([])
    await scheduler.serve()
    try:
        yield scheduler
    finally:
        await scheduler.close()
        await setup.clear()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


async def start(here: Scheduler, what: Act, *, workers: int = 1, grace: float = 30.0) -> None:
    """Launch job `j` and wait until its workers run and have printed their lines."""
    await here.backend.engine.launch(launch("j", what.command, workers=workers, grace=grace))
    for rank in range(workers):
        await here.until(lambda rank=rank: WorkerState.RUNNING in here.states("j", rank))  # type: ignore[misc]
        await said(here, what, rank)


async def said(here: Scheduler, what: Act, rank: int = 0) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(seen := await log_of(here, rank)) < len(what.say):
            await here.backend.files.grown(log_file(JobId("j"), 1, rank), len(seen))


async def log_of(here: Scheduler, rank: int = 0) -> str:
    return (await here.backend.files.read(log_file(JobId("j"), 1, rank), 0, 2**20)).decode()


def begun(here: Scheduler, rank: int = 0) -> list[WorkerState]:
    """The states of a worker, each once, without those before running."""
    return list(dict.fromkeys(state for state in here.states("j", rank) if state.begun))


# -- launching ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 7, 127, 255])
async def test_running_is_reported_and_then_the_exit_code(here: Scheduler, code: int) -> None:
    await here.backend.engine.launch(launch("j", Act(say="one\n", code=code).command))
    end = await here.end("j")
    assert (end.state, end.exit_code) == (WorkerState.EXITED, code)
    assert begun(here) == RUNS_AND_ENDS


async def test_each_worker_of_a_gang_is_reported_by_its_rank(here: Scheduler) -> None:
    await here.backend.engine.launch(launch("j", Act(say="one\n").command, workers=3))
    for rank in range(3):
        assert (await here.end("j", rank)).exit_code == 0
        assert begun(here, rank) == RUNS_AND_ENDS


async def test_launching_again_starts_nothing_again(here: Scheduler, gate: Path) -> None:
    what = Act(say="one\n", gate=str(gate))
    order = launch("j", what.command)
    await asyncio.gather(*(here.backend.engine.launch(order) for _ in range(3)))
    await said(here, what)
    await here.backend.engine.launch(order)
    gate.touch()
    await here.end("j")
    await here.backend.engine.launch(order)
    assert await log_of(here) == "one\n"
    assert begun(here) == RUNS_AND_ENDS


async def test_what_cannot_be_started_is_the_fault_of_the_job(here: Scheduler) -> None:
    await here.backend.engine.launch(launch("j", NO_SUCH_COMMAND))
    end = await here.end("j")
    assert (end.exit_code, end.fault) == (127, Fault.JOB)
    assert WorkerState.RUNNING not in here.states("j")


async def test_a_worker_with_an_unknown_end_is_lost(here: Scheduler, setup: BackendSetup, gate: Path) -> None:
    await start(here, Act(say="one\n", gate=str(gate)), workers=2)
    await setup.lose("j", 1)
    end = await here.end("j", 1)
    assert (end.state, end.exit_code) == (WorkerState.LOST, None)
    gate.touch()
    assert (await here.end("j", 0)).exit_code == 0


# -- stopping -----------------------------------------------------------------------------------------------


async def test_a_worker_ends_by_sigterm(here: Scheduler, gate: Path) -> None:
    await start(here, Act(say="one\n", gate=str(gate)), workers=2)
    await here.backend.engine.stop(JobId("j"), 1, 30)
    assert [(await here.end("j", rank)).exit_code for rank in (0, 1)] == [-15, -15]


async def test_a_worker_saves_its_state_in_its_grace_period(here: Scheduler, gate: Path) -> None:
    await start(here, Act(say="one\n", gate=str(gate), term=7))
    await here.backend.engine.stop(JobId("j"), 1, 30)
    assert (await here.end("j")).exit_code == 7
    assert [file.path for file in await here.backend.files.list(JobId("j"), Area.CHECKPOINT)] == ["state"]


async def test_a_worker_that_ignores_sigterm_is_killed_after_its_grace_period(here: Scheduler, gate: Path) -> None:
    await start(here, Act(say="one\n", gate=str(gate), term=DEAF))
    await here.backend.engine.stop(JobId("j"), 1, 600)
    await here.backend.engine.stop(JobId("j"), 1, 0.1)  # the earlier deadline holds
    await here.backend.engine.stop(JobId("j"), 1, 600)
    assert (await here.end("j")).exit_code == -9


async def test_a_worker_that_is_asked_to_save_its_state_keeps_running(here: Scheduler, gate: Path) -> None:
    """It is asked once for each time, also after a restart of the scheduler."""
    await start(here, Act(say="one\n", gate=str(gate)), workers=2)

    async def asks(until: float, expected: str) -> None:
        await here.backend.engine.ask_to_save(JobId("j"), 1, until)
        for rank in (0, 1):
            await said(here, Act(say=expected), rank)

    await asks(5.0, "one\n" + SAVES)
    await here.restart(("j", 1, 2))
    await asks(5.0, "one\n" + SAVES)
    await asks(6.0, "one\n" + 2 * SAVES)
    gate.touch()
    assert [(await here.end("j", rank)).exit_code for rank in (0, 1)] == [0, 0]
    assert [await log_of(here, rank) for rank in (0, 1)] == ["one\n" + 2 * SAVES] * 2
    assert [file.path for file in await here.backend.files.list(JobId("j"), Area.CHECKPOINT)] == ["state"]
    await here.backend.engine.ask_to_save(JobId("j"), 1, 7.0)


async def test_stopping_an_unknown_attempt_does_nothing(here: Scheduler, gate: Path) -> None:
    await here.backend.engine.stop(JobId("nobody"), 1, 0)
    await start(here, Act(say="one\n", gate=str(gate)))
    await here.backend.engine.stop(JobId("j"), 2, 0)
    gate.touch()
    assert (await here.end("j")).exit_code == 0
    await here.backend.engine.stop(JobId("j"), 1, 0)
    assert begun(here) == RUNS_AND_ENDS


# -- after a restart ----------------------------------------------------------------------------------------


async def test_a_worker_outlives_the_scheduler_and_is_reported_again(here: Scheduler, gate: Path) -> None:
    await start(here, Act(say="one\n", gate=str(gate), code=3))
    assert await here.restart(("j", 1, 1), ("k", 1, 2)) == {("k", 1)}
    await here.until(lambda: WorkerState.RUNNING in here.states("j"))
    gate.touch()
    assert (await here.end("j")).exit_code == 3
    assert await log_of(here) == "one\n"


async def test_an_earlier_end_is_reported_again(here: Scheduler) -> None:
    await here.backend.engine.launch(launch("j", Act(say="one\n", code=3).command))
    await here.end("j")
    assert await here.restart(("j", 1, 1)) == frozenset()
    assert (await here.end("j")).exit_code == 3


async def test_launching_again_after_a_restart_starts_nothing_again(here: Scheduler, gate: Path) -> None:
    what = Act(say="one\n", gate=str(gate))
    await start(here, what)
    await here.restart(("j", 1, 1))
    await here.backend.engine.launch(launch("j", what.command))
    gate.touch()
    assert (await here.end("j")).exit_code == 0
    assert await log_of(here) == "one\n"


async def test_unknown_workers_are_ended(here: Scheduler, setup: BackendSetup, gate: Path) -> None:
    await start(here, Act(say="one\n", gate=str(gate), term=DEAF))
    assert await here.restart() == frozenset()
    async with asyncio.timeout(PATIENCE):
        while await here.backend.files.grown(log_file(JobId("j"), 1, 0), 2**20):
            pass
    await eventually_forgotten(here)


async def eventually_forgotten(here: Scheduler) -> None:
    """Wait until nothing of job `j` runs, and forget it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await here.backend.files.forget(JobId("j"))
            except Conflict:
                await asyncio.sleep(0.01)


async def test_a_stop_continues_after_a_restart(here: Scheduler, gate: Path) -> None:
    await start(here, Act(say="one\n", gate=str(gate), term=DEAF))
    await here.backend.engine.stop(JobId("j"), 1, 0.5)
    await here.restart(("j", 1, 1))
    assert (await here.end("j")).exit_code == -9


# -- sessions -----------------------------------------------------------------------------------------------

NODE = Node(NodeName("box"), gpus=2, devices=("GPU-a", "GPU-b"))


@pytest.mark.parametrize(("gpus", "seen"), [((1,), "GPU-b"), ((0, 1), "GPU-a,GPU-b"), ((), "")])
async def test_a_session_sees_the_gpus_that_it_is_given_also_after_a_restart(
    here: Scheduler, gpus: tuple[int, ...], seen: str
) -> None:
    seat = Seat(SessionId("s"), UserName("ada"), "", (WorkerPlacement(NodeName("box"), gpus),), {NodeName("box"): NODE})
    grant = await here.backend.engine.seat(seat)
    assert grant.env == {"CUDA_VISIBLE_DEVICES": seen, "RUNAI_GPUS": seen}
    assert await here.backend.engine.seat(seat) == grant
    await here.restart()
    assert await here.backend.engine.seat(seat) == grant
    await here.backend.engine.unseat(SessionId("s"))
    await here.backend.engine.unseat(SessionId("s"))
    await here.backend.engine.unseat(SessionId("nobody"))
    assert await here.backend.engine.seat(seat) == grant


# -- files --------------------------------------------------------------------------------------------------


async def test_a_log_is_read_in_parts_and_followed_to_its_end(here: Scheduler, gate: Path) -> None:
    await start(here, Act(say="one two three", gate=str(gate)))
    files, log = here.backend.files, log_file(JobId("j"), 1, 0)
    assert await files.read(log, 4, 3) == b"two"
    assert await files.read(log, 99, 3) == b""
    assert await files.read(log_file(JobId("j"), 2, 0), 0, 3) == b""
    assert await files.grown(log, 3) is True
    following = asyncio.create_task(files.grown(log, 13))
    gate.touch()
    await here.end("j")
    async with asyncio.timeout(PATIENCE):
        assert await following is False


async def test_a_log_has_the_times_of_its_lengths(here: Scheduler, gate: Path) -> None:
    began = time.time()
    await start(here, Act(say="one two three", gate=str(gate)))
    files, log = here.backend.files, log_file(JobId("j"), 1, 0)
    async with asyncio.timeout(PATIENCE):
        while not (times := await files.log_times(log)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert times[-1][0] == 13
    assert began <= times[-1][1] <= time.time()
    gate.touch()
    await here.end("j")
    assert await files.log_times(log) == times
    assert await files.log_times(log_file(JobId("j"), 2, 0)) == []


async def test_outputs_are_listed_and_read(here: Scheduler) -> None:
    await here.backend.engine.launch(launch("j", Act(say="words", writes="out.txt").command))
    await here.end("j")
    files = here.backend.files
    assert [(file.path, file.size) for file in await files.list(JobId("j"), Area.OUTPUT)] == [("out.txt", 5)]
    assert await files.read(output_file(JobId("j"), "out.txt"), 1, 3) == b"ord"
    reader = await files.open_file(output_file(JobId("j"), "out.txt"))
    assert reader.size == 5
    assert [await reader.read(4), await reader.read(4), await reader.read(4)] == [b"word", b"s", b""]
    await reader.close()


@pytest.mark.parametrize("path", ["nothing", "../../boot", "/etc/passwd", "..", ""])
async def test_nothing_outside_is_read(here: Scheduler, path: str) -> None:
    await here.backend.engine.launch(launch("j", Act(say="words", writes="out.txt").command))
    await here.end("j")
    assert await here.backend.files.read(output_file(JobId("j"), path), 0, 10) == b""
    with pytest.raises(NotFound):
        await here.backend.files.open_file(output_file(JobId("j"), path))


async def test_the_time_of_a_checkpoint_is_reported_while_a_job_runs(here: Scheduler, gate: Path) -> None:
    await start(here, Act(say="one\n", saves=True, gate=str(gate)))
    async with asyncio.timeout(PATIENCE):
        while not await here.backend.files.list(JobId("j"), Area.CHECKPOINT):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    gate.touch()
    await here.end("j")


async def test_a_job_is_forgotten_once_it_has_ended(here: Scheduler, gate: Path) -> None:
    what = Act(say="words", writes="out.txt", gate=str(gate))
    await start(here, what)
    with pytest.raises(Conflict):
        await here.backend.files.forget(JobId("j"))
    gate.touch()
    await here.end("j")
    assert await here.backend.files.kept() == {"j"}
    await eventually_forgotten(here)
    assert await here.backend.files.kept() == frozenset()
    assert await here.backend.files.list(JobId("j"), Area.OUTPUT) == ()
    assert await here.backend.files.read(log_file(JobId("j"), 1, 0), 0, 9) == b""
    await here.backend.files.forget(JobId("j"))


async def test_an_invalid_job_id_has_no_files(here: Scheduler) -> None:
    with pytest.raises(NotFound):
        await here.backend.files.list(JobId("../jobs"), Area.OUTPUT)


# -- nodes and leadership -----------------------------------------------------------------------------------


async def test_nodes_have_unique_names(here: Scheduler) -> None:
    nodes = here.backend.inventory.nodes(Pool())
    assert nodes
    assert len({node.name for node in nodes}) == len(nodes)
    assert {node.node_pool for node in nodes} <= {node_pool.name for node_pool in Pool().node_pools}
    places = {(node.name, gpu) for node in nodes for gpu in range(node.gpus)}
    assert here.backend.inventory.usage(nodes).keys() <= places
    assert here.backend.inventory.nodes(Pool()) == nodes


async def test_a_second_scheduler_leads_only_after_the_first_has_released_the_lead(
    here: Scheduler, setup: BackendSetup
) -> None:
    second = setup.backend().leadership
    with pytest.raises(Conflict):
        await second.acquire()
    await here.backend.leadership.release()
    await second.acquire()
    await second.release()
    await here.backend.leadership.acquire()


async def test_only_the_scheduler_that_loses_the_lead_is_notified(here: Scheduler, setup: BackendSetup) -> None:
    lost = asyncio.create_task(here.backend.leadership.lost())
    await here.backend.engine.launch(launch("j", Act(say="one\n").command))
    await here.end("j")
    assert not lost.done()
    if setup.take_over():
        async with asyncio.timeout(PATIENCE):
            await lost
    lost.cancel()
