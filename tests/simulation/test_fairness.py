"""Projects worse off than alone, and the time without their guarantees: by example, and with a slow reference."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import JobId, ProjectName
from scheduler.simulation.baselines import Run, Span, play_baseline
from scheduler.simulation.fairness import compare, deprived
from scheduler.simulation.trace import Trace, TraceJob


def job(name: str, project: str, submitted: float = 0.0, gpus: int = 1, duration: float = 10.0) -> TraceJob:
    return TraceJob(JobId(name), submitted, duration, gpus * 1000, ProjectName(project))


def ran(job: TraceJob, start: float) -> Run:
    return Run(job, (Span(start, start + job.duration, job.gpus),))


def test_a_team_is_worse_off_when_its_jobs_take_longer_than_alone() -> None:
    jobs = [job("a1", "a"), job("a2", "a"), job("b1", "b")]
    alone = [ran(jobs[0], 0), ran(jobs[1], 10), ran(jobs[2], 0)]
    shared = [ran(jobs[0], 0), ran(jobs[1], 0), ran(jobs[2], 10)]
    told = compare(shared, alone)
    assert told.teams == pytest.approx({"a": 20 / 30, "b": 2.0})
    assert told.worse_off == ["b"]
    assert told.jobs.longer == pytest.approx(1 / 3)
    assert told.jobs_by_team["a"].p10 == pytest.approx(0.5)


def test_no_team_is_worse_off_than_in_the_same_run() -> None:
    runs = [ran(job("a1", "a"), 5), ran(job("b1", "b"), 0)]
    assert compare(runs, runs).worse_off == []


def test_a_guarantee_is_broken_while_others_hold_its_gpus() -> None:
    """a has 2 of 3 GPUs until 10 though 1 is its own; b waits for its 2 from 4 on, and gets them at 10."""
    runs = [
        ran(job("a1", "a", gpus=2), 0.0),
        ran(job("b1", "b", submitted=4.0, gpus=2), 10.0),
    ]
    assert deprived(runs, {"a": 1000, "b": 2000}) == {"a": 0.0, "b": 6.0}
    assert deprived(runs, {"a": 2000, "b": 2000})["b"] == 0.0  # a did not exceed its guarantee
    assert deprived(runs, {"a": 1000, "b": 1000})["b"] == 0.0  # b requests more than its guarantee


traces = st.lists(
    st.builds(
        TraceJob,
        id=st.uuids().map(str),
        submitted=st.integers(0, 60).map(float),
        duration=st.integers(1, 30).map(float),
        gpus=st.sampled_from([500, 1000, 2000, 8000]),
        project=st.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=20,
).map(lambda some: Trace(tuple(sorted(some, key=lambda job: job.submitted)), ""))


@given(traces, st.tuples(*[st.integers(0, 8)] * 3))
@settings(max_examples=100, deadline=None)
def test_the_count_of_seconds_is_that_of_looking_every_half_second(
    trace: Trace, promised: tuple[int, int, int]
) -> None:
    runs = play_baseline(trace, "fifo", nodes=1)
    guarantees = {team: gpus * 1000 for team, gpus in zip("abc", promised, strict=True)}
    slow = dict.fromkeys("abc", 0.0)
    for half in range(1, 2 * int(max(run.ended for run in runs)), 2):
        now = half / 2
        held = {
            team: sum(r.job.gpus for r in runs if r.job.project == team and r.started <= now < r.ended)
            for team in "abc"
        }
        for team in "abc":
            asks = [r.job.gpus for r in runs if r.job.project == team and r.job.submitted <= now < r.started]
            others = any(held[other] > guarantees[other] for other in "abc" if other != team)
            slow[team] += bool(asks) and held[team] + min(asks) <= guarantees[team] and others
    assert deprived(runs, guarantees) == pytest.approx(slow)
