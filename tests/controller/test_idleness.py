"""A job that leaves its GPUs idle for too long is stopped; one without measurements never is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller import controller, gpuusage
from scheduler.controller.idleness import BUSY, Idleness
from scheduler.model import Attempt, GpuKey, Job, JobId, JobState, Node, NodeName, Pool, WorkerPlacement, Workload
from scheduler.telemetry import GpuProcess, GpuSample, GpuUsage, Inventory
from tests.controller.stage import World, make_job, opened

IDLE, WORKING, UNKNOWN = GpuUsage(0.0, 1, 2), GpuUsage(0.9, 1, 2), GpuUsage(None, 1, 2)


def running(timeout: float | None = 60.0) -> Job:
    placement = (WorkerPlacement(NodeName("n"), (0, 1)),)
    job = make_job(gpus=2, idle_timeout=timeout)
    return replace(job, state=JobState.RUNNING, attempts=(Attempt(1, placement, created=0.0, started=0.0),))


@pytest.mark.parametrize(
    ("gpus", "stopped"),
    [
        ((IDLE, IDLE), True),
        ((IDLE, WORKING), False),
        ((IDLE, UNKNOWN), False),
        ((IDLE, None), False),
        ((GpuUsage(BUSY, 1, 2), IDLE), False),
    ],
)
def test_all_gpus_must_be_known_to_be_idle(gpus: tuple[GpuUsage | None, ...], stopped: bool) -> None:
    idleness, job = Idleness(), running()
    usage = {GpuKey((NodeName("n"), index)): gpu for index, gpu in enumerate(gpus) if gpu is not None}
    assert idleness.look([job], usage, 0.0) == []
    assert (idleness.look([job], usage, 60.0) == [job]) == stopped


@dataclass
class Picking(Inventory):
    """The GPUs of node n, each with its use and the jobs that have a process on it."""

    gpus: Sequence[tuple[GpuUsage, str]]

    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        return (Node(NodeName("n"), gpus=3),)

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        return {GpuKey((NodeName("n"), number)): usage for number, (usage, _) in enumerate(self.gpus)}

    def samples(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuSample]:
        return {
            GpuKey((NodeName("n"), number)): GpuSample(
                processes=tuple(GpuProcess(7, job_id=JobId(job)) for job in jobs.split())
            )
            for number, (_, jobs) in enumerate(self.gpus)
        }

    async def open(self, changed: object) -> None: ...

    async def close(self) -> None: ...


@dataclass
class Standing:
    nodes: Sequence[Node]
    standing: Sequence[Workload]


@pytest.mark.parametrize(
    ("gpus", "idle"),
    [
        # nobody knows which ones it has: all must be idle
        ([(IDLE, ""), (IDLE, ""), (IDLE, "")], True),
        ([(IDLE, ""), (IDLE, ""), (WORKING, "")], False),
        ([(IDLE, ""), (IDLE, ""), (UNKNOWN, "")], False),
        ([(IDLE, ""), (IDLE, "")], False),
        # another job's cannot be its own
        ([(IDLE, ""), (IDLE, ""), (WORKING, "other")], True),
        ([(IDLE, "job"), (IDLE, ""), (WORKING, "other")], True),
        ([(WORKING, "job"), (IDLE, ""), (IDLE, "other")], False),
        ([(WORKING, ""), (IDLE, ""), (IDLE, "other")], False),
        # its processes are on as many as it holds
        ([(IDLE, "job"), (WORKING, ""), (IDLE, "job")], True),
        ([(WORKING, "job"), (IDLE, "job"), (IDLE, "")], False),
        ([(IDLE, "job"), (IDLE, "job")], True),
    ],
)
def test_where_the_engine_picks_gpus_processes_tell_whose_they_are(
    gpus: Sequence[tuple[GpuUsage, str]], idle: bool
) -> None:
    idleness, job, inventory = Idleness(), replace(running(), id=JobId("job")), Picking(gpus)
    workload = Workload(job.id, job.request, 0.0, running=True, placement=job.placement)
    usage = gpuusage.by_job(inventory, Standing(inventory.nodes(Pool()), [workload]), picks=True)
    idleness.look([job], usage, 0.0)
    assert (idleness.look([job], usage, 60.0) == [job]) == idle


@pytest.mark.parametrize(
    ("gpus", "seen"),
    [
        ([(IDLE, ""), (WORKING, "job"), (WORKING, "job")], [WORKING, WORKING, IDLE]),
        ([(WORKING, "job"), (IDLE, ""), (UNKNOWN, "")], [None, None, IDLE]),
        ([(WORKING, "other"), (IDLE, "job"), (IDLE, "job")], [IDLE, IDLE, None]),
    ],
)
def test_what_is_seen_of_gpus_that_the_engine_picks_is_certain(
    gpus: Sequence[tuple[GpuUsage, str]], seen: Sequence[GpuUsage | None]
) -> None:
    job, inventory = replace(running(), id=JobId("job")), Picking(gpus)
    workload = Workload(job.id, job.request, 0.0, running=True, placement=job.placement)
    usage = gpuusage.in_sight(inventory, Standing(inventory.nodes(Pool()), [workload]), picks=True)
    assert [usage.get(GpuKey((NodeName("n"), number))) for number in range(3)] == seen


def test_jobs_without_a_timeout_or_not_running_are_ignored() -> None:
    usage = {GpuKey((NodeName("n"), 0)): IDLE, GpuKey((NodeName("n"), 1)): IDLE}
    for job in (running(None), replace(running(), state=JobState.STOPPING)):
        idleness = Idleness()
        idleness.look([job], usage, 0.0)
        assert idleness.look([job], usage, 1e6) == []


@given(st.lists(st.tuples(st.floats(1, 40), st.booleans()), min_size=1, max_size=30))
def test_it_is_stopped_at_the_first_look_after_its_timeout_without_a_busy_one(
    looks: list[tuple[float, bool]],
) -> None:
    idleness, job, now = Idleness(), running(), 0.0
    seen: list[tuple[float, bool]] = []
    for pause, busy in looks:
        now += pause
        seen.append((now, busy))
        gpu = WORKING if busy else IDLE
        over = idleness.look([job], {GpuKey((NodeName("n"), 0)): gpu, GpuKey((NodeName("n"), 1)): IDLE}, now)
        since = now
        for (at, idle_then), (_, _) in pairwise([*reversed(seen), (0.0, True)]):
            if idle_then:
                break
            since = at
        assert bool(over) == (not busy and now - since >= 60.0)


async def test_the_controller_stops_it_and_says_why(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "LOOK", 0.01)
    async with opened(tmp_path, world) as bench:
        bench.machines.use = {
            GpuKey((node.name, gpu)): IDLE for node in bench.controller.book.nodes for gpu in range(node.gpus)
        }
        patient = await bench.controller.submit(make_job())
        idle = await bench.controller.submit(make_job(idle_timeout=0.05))
        failed = await bench.reaches(idle, JobState.FAILED)
        assert failed.reason == "Its GPUs were idle for <1 s."
        await bench.reaches(patient, JobState.RUNNING)
