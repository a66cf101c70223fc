"""Expected run times: declared by owners, learned from earlier jobs, and the bounds of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller.runtimes import RECENT, Estimate, RunTimes, Source
from scheduler.model import Attempt, Job, JobId, JobKind, JobState, Program, ProjectName, Request, Shape, UserName
from tests.controller.stage import Bench, World, make_job, opened

TRAIN = Job(
    JobId("j-1"),
    "bert-1",
    Request(ProjectName("vision"), UserName("ana"), shape=Shape(2000)),
    Program(JobKind.SCRIPT, ("/usr/bin/python", "train.py", "--lr", "0.1")),
    submitted=0.0,
)


def ended(job: Job, *spans: float, state: JobState = JobState.SUCCEEDED, saved: bool = False) -> Job:
    """The same job after attempts of these lengths in seconds."""
    attempts = tuple(
        Attempt(number, (), created=0.0, started=100.0, ended=100.0 + span)
        for number, span in enumerate(spans, start=1)
    )
    return replace(job, state=state, attempts=attempts, checkpointed=1.0 if saved else None)


def expecting(*jobs: Job) -> RunTimes:
    times = RunTimes()
    for job in jobs:
        times.learn(job)
    return times


def test_there_is_no_estimate_before_the_first_has_ended() -> None:
    assert RunTimes().estimate(TRAIN) is None
    assert expecting(ended(TRAIN, 60, state=JobState.FAILED)).estimate(TRAIN) is None
    assert expecting(ended(TRAIN, 60, state=JobState.CANCELLED)).estimate(TRAIN) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(TRAIN, name="bert-2"),
        replace(TRAIN, program=replace(TRAIN.program, command=("python", "train.py", "--lr", "0.2"))),
        replace(TRAIN, request=replace(TRAIN.request, priority=90, preemptible=False)),
    ],
)
def test_jobs_that_differ_in_numbers_options_and_priority_are_alike(other: Job) -> None:
    assert expecting(ended(TRAIN, 60)).estimate(other) == Estimate(60, Source.LEARNED)


@pytest.mark.parametrize(
    "other",
    [
        replace(TRAIN, name="gpt-1"),
        replace(TRAIN, program=replace(TRAIN.program, command=("python", "test.py"))),
        replace(TRAIN, program=replace(TRAIN.program, kind=JobKind.COMMAND)),
        replace(TRAIN, request=replace(TRAIN.request, shape=Shape(1000))),
        replace(TRAIN, request=replace(TRAIN.request, workers=2)),
        replace(TRAIN, request=replace(TRAIN.request, user=UserName("bo"))),
        replace(TRAIN, request=replace(TRAIN.request, project=ProjectName("nlp"))),
    ],
)
def test_others_are_not(other: Job) -> None:
    assert expecting(ended(TRAIN, 60)).estimate(other) is None


def test_the_owners_estimate_takes_precedence_within_max_runtime() -> None:
    times = expecting(ended(TRAIN, 600))
    declared = replace(TRAIN, request=replace(TRAIN.request, expected_runtime=50.0))
    assert times.estimate(declared) == Estimate(50, Source.DECLARED)
    bounded = replace(TRAIN, program=replace(TRAIN.program, max_runtime=200.0))
    assert times.estimate(bounded) == Estimate(200, Source.LEARNED)
    assert RunTimes().estimate(bounded) == Estimate(200, Source.LIMIT)


def test_attempts_are_added_only_where_checkpoints_were_saved() -> None:
    assert expecting(ended(TRAIN, 100, 60)).estimate(TRAIN) == Estimate(60, Source.LEARNED)
    assert expecting(ended(TRAIN, 100, 60, saved=True)).estimate(TRAIN) == Estimate(160, Source.LEARNED)


def test_the_most_similar_jobs_are_used_first() -> None:
    other = replace(TRAIN, name="gpt-1", program=replace(TRAIN.program, command=("other.py",)))
    slower = replace(TRAIN, program=replace(TRAIN.program, command=(*TRAIN.program.command, "--epochs", "9")))
    times = expecting(*[ended(other, seconds) for seconds in (7, 5, 6)])
    assert times.runs_like(TRAIN) == (5, 6, 7)
    assert times.estimate(TRAIN) is None, "the policy relies only on jobs like it"
    for seconds in (100, 200, 300):
        times.learn(ended(TRAIN, seconds))
    assert times.runs_like(slower) == (100, 200, 300)
    for seconds in (1000, 3000, 2000):
        times.learn(ended(slower, seconds))
    assert times.runs_like(slower) == (1000, 2000, 3000)
    assert times.runs_like(TRAIN) == (100, 200, 300)
    bounded = replace(slower, program=replace(slower.program, max_runtime=2500.0))
    assert times.runs_like(bounded) == (1000, 2000, 2500)
    declared = replace(slower, request=replace(slower.request, expected_runtime=50.0))
    assert times.runs_like(declared) == ()


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_it_is_the_median_of_the_latest(spans: list[int]) -> None:
    found = expecting(*(ended(TRAIN, span) for span in spans)).estimate(TRAIN)
    latest = sorted(spans[-RECENT:])
    assert found is not None
    assert (len(latest) - 1) // 2 <= sum(span <= found.seconds for span in latest) - 1 <= len(latest) - 1
    assert latest[(len(latest) - 1) // 2] <= found.seconds <= latest[len(latest) // 2]


def test_waiting_jobs_are_estimated_again_only_after_a_notable_change() -> None:
    times = RunTimes()
    waiting = replace(TRAIN, id=JobId("j-2"))
    times.note(waiting)
    assert times.learn(ended(TRAIN, 100)) == ["j-2"]
    assert times.learn(ended(TRAIN, 110)) == []
    assert times.learn(ended(TRAIN, 300)) == []
    assert times.learn(ended(TRAIN, 300)) == ["j-2"]
    times.note(ended(waiting, 5))
    assert times.learn(ended(TRAIN, 9000)) == []


def expected(bench: Bench, job: Job) -> Any:
    (workload,) = (each for each in bench.controller.snapshot().workloads if each.id == job.id)
    return workload.request.expected_runtime


async def test_the_policy_learns_from_ended_jobs_also_after_a_restart(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        first = await bench.controller.submit(make_job(gpus=4))
        later = await bench.controller.submit(make_job(gpus=4))
        await bench.reaches(first, JobState.RUNNING)
        assert expected(bench, later) is None
        bench.engine.end(first.id, 1, 0, 0)
        done = await bench.reaches(first, JobState.SUCCEEDED)
        attempt = done.attempts[0]
        assert attempt.started is not None
        assert attempt.ended is not None
        assert expected(bench, later) == attempt.ended - attempt.started
    async with opened(tmp_path, world, pool=None) as bench:
        assert expected(bench, later) == attempt.ended - attempt.started
