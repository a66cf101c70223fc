"""Throughputs by GPU type are measured, stored, and used to place similar jobs."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.api.access import Access, Caller, Scope
from scheduler.api.explain import explanation
from scheduler.cli.explain import show
from scheduler.cli.text import Screen
from scheduler.controller.runtimes import RunTimes
from scheduler.controller.throughputs import RECENT, MeasuredThroughput, Unit, type_of
from scheduler.model import (
    BUILD_POOL,
    Attempt,
    Ending,
    GpuType,
    Job,
    JobState,
    Node,
    NodeName,
    UserName,
    WorkerPlacement,
)
from scheduler.policy import decide
from tests.controller.stage import Bench, World, make_job, opened

NODES = (
    Node(NodeName("box-build"), gpus=1, node_pool=BUILD_POOL, declared=True),
    Node(NodeName("v"), gpus=2, gpu_type=GpuType("V100"), declared=True),
    Node(NodeName("a"), gpus=2, gpu_type=GpuType("A100"), declared=True),
)


def ran(
    gpu_type: str | None,
    steps: float | None = None,
    *,
    seconds: float = 100,
    nodes: int = 1,
    state: str = "succeeded",
) -> Job:
    """A job of two workers that ended after one attempt."""
    ending = Ending.SUCCEEDED if state == "succeeded" else Ending.STOPPED
    placement = tuple(WorkerPlacement(NodeName(f"n{n % nodes}"), (n,)) for n in range(2))
    attempt = Attempt(
        1,
        placement,
        created=0,
        started=0,
        ended=seconds,
        ending=ending,
        gpu_type=None if gpu_type is None else GpuType(gpu_type),
        throughput=steps,
    )
    return replace(make_job(workers=2), state=JobState(state), attempts=(attempt,))


def learned(*jobs: Job) -> RunTimes:
    times = RunTimes()
    for job in jobs:
        times.learn(job)
    return times


def relative(times: RunTimes) -> dict[str, int]:
    return dict(times.workload(make_job(workers=2)).request.throughputs)


def test_steps_a_second_are_compared_by_type() -> None:
    times = learned(ran("V100", 10), ran("A100", 27), ran("V100", 10))
    assert relative(times) == {"A100": 1000, "V100": 370}
    assert times.throughputs(make_job(workers=2)) == (
        MeasuredThroughput(GpuType("A100"), Unit.STEPS, 27, 1),
        MeasuredThroughput(GpuType("V100"), Unit.STEPS, 10, 2),
    )


def test_without_reports_run_times_are_compared() -> None:
    assert relative(learned(ran("V100", seconds=300), ran("A100", seconds=100))) == {
        "A100": 1000,
        "V100": 333,
    }


def test_steps_are_preferred_to_runs_and_never_compared_with_them() -> None:
    assert relative(learned(ran("V100", 10), ran("A100", seconds=1))) == {}
    both = learned(ran("V100", 10), ran("A100", 20), ran("V100", seconds=1), ran("A100", seconds=2))
    assert relative(both) == {"A100": 1000, "V100": 500}


def test_one_type_alone_is_not_compared() -> None:
    assert relative(learned(ran("A100", 10), ran("A100", 20), ran(None, 90))) == {}


def test_what_was_reached_on_one_node_counts_before_what_was_reached_over_several() -> None:
    spread = ran("A100", 5, nodes=2)
    assert relative(learned(ran("V100", 10), spread)) == {"A100": 500, "V100": 1000}
    times = learned(spread, ran("V100", 10), ran("A100", 20), spread)
    assert relative(times) == {"A100": 1000, "V100": 500}
    assert times.workload(make_job(workers=2)).request.spread_throughputs == (("A100", 250),)
    assert times.throughputs(make_job(workers=2))[0] == MeasuredThroughput(GpuType("A100"), Unit.STEPS, 20, 1, 5)


def test_a_cancelled_job_counts_by_its_reports_but_not_by_its_run_time() -> None:
    assert relative(learned(ran("V100", 10, state="cancelled"), ran("A100", 20))) == {
        "A100": 1000,
        "V100": 500,
    }
    assert relative(learned(ran("V100", state="cancelled"), ran("A100"))) == {}


def test_the_latest_count() -> None:
    old, new = [ran("A100", 1)] * RECENT, [ran("A100", 40)] * RECENT
    assert relative(learned(ran("V100", 10), *old, *new)) == {"A100": 1000, "V100": 250}


def test_waiting_jobs_are_updated_only_after_a_notable_change() -> None:
    times = learned(ran("V100", 10, state="cancelled"))
    waiting = make_job(workers=2)
    times.note(waiting)
    assert times.learn(ran("A100", 20, state="cancelled")) == [waiting.id]
    assert times.learn(ran("A100", 20.5, state="cancelled")) == []
    assert times.learn(ran("A100", 60, state="cancelled")) == []
    assert times.learn(ran("A100", 60, state="cancelled")) == [waiting.id]


def test_the_time_that_a_job_takes_is_expected_for_the_type_it_runs_on() -> None:
    times = learned(ran("V100", 10, seconds=400), ran("A100", 40, seconds=100))
    on_v100 = replace(ran("V100"), state=JobState.RUNNING)
    found = times.estimate(on_v100)
    assert found is not None
    assert found.seconds == 400
    on_a100 = times.estimate(replace(ran("A100"), state=JobState.RUNNING))
    assert on_a100 is not None
    assert on_a100.seconds == 100


def test_a_placement_over_several_types_has_none() -> None:
    assert type_of((WorkerPlacement(NodeName("v"), (0,)), WorkerPlacement(NodeName("v"), (1,))), NODES) == "V100"
    assert type_of((WorkerPlacement(NodeName("v"), (0,)), WorkerPlacement(NodeName("a"), (1,))), NODES) is None
    assert type_of((WorkerPlacement(NodeName("v"), (0,)), WorkerPlacement(NodeName("a"), ())), NODES) == "V100"


async def run(bench: Bench, steps: float, **asks: object) -> Job:
    """Submit a job and end it with these steps per second, by type."""
    job = await bench.controller.submit(make_job(**asks))  # type: ignore[arg-type]
    await bench.reaches(job, JobState.RUNNING)
    bench.engine.end(job.id, 1, 0, 0, throughput=steps)
    return await bench.reaches(job, JobState.SUCCEEDED)


async def test_a_pool_of_two_types_learns_which_one_is_faster_and_knows_it_after_a_restart(
    tmp_path: Path, world: World
) -> None:
    async with opened(tmp_path, world, *NODES, decide=decide) as bench:
        job = await bench.controller.submit(make_job())
        assert (await bench.reaches(job, JobState.RUNNING)).placement[0].node == "v"
        bench.engine.end(job.id, 1, 0, 0, throughput=10)
        (attempt,) = (await bench.reaches(job, JobState.SUCCEEDED)).attempts
        assert (attempt.gpu_type, attempt.throughput) == ("V100", 10)
        assert (await run(bench, 27, gpu_types=("A100",))).attempts[0].gpu_type == "A100"
    async with opened(tmp_path, world, *NODES, pool=None, decide=decide) as bench:
        jobs = [await bench.controller.submit(make_job()) for _ in range(3)]
        nodes = [(await bench.reaches(job, JobState.RUNNING)).placement[0].node for job in jobs]
        assert nodes == ["a", "a", "v"]
        access = Access(Caller.of(UserName("ana"), frozenset({Scope.READ})), bench.controller.book.pool)
        found = explanation(bench.controller.book.jobs[jobs[0].id], bench.controller.book, access, time.time())
        assert found.speed == ("On A100: 2.7 times as fast as V100 for jobs like this one, measured on 2 runs.")
        assert [(each.gpu_type, each.relative, each.unit) for each in found.speeds] == [
            ("A100", 1.0, "steps"),
            ("V100", pytest.approx(0.37, abs=0.001), "steps"),
        ]
        said = io.StringIO()
        show(Screen(said), found, 0)
        assert "2.7 times as fast as V100" in said.getvalue()
