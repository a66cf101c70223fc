"""The preemptive baselines, compared with results worked out by hand."""

from __future__ import annotations

import pytest

from scheduler.errors import Invalid
from scheduler.model import JobId, ProjectName
from scheduler.simulation.preemptive import play_preemptive
from scheduler.simulation.trace import Trace, TraceJob

HOUR = 3600.0


def trace(*jobs: tuple[str, float, float, int]) -> Trace:
    return Trace(
        tuple(TraceJob(JobId(id), at, lasts, 1000 * gpus, ProjectName("p")) for id, at, lasts, gpus in jobs), ""
    )


def test_the_oracle_pauses_a_long_job_for_a_shorter_one() -> None:
    """A stop costs the long job 60 s when it resumes."""
    played = play_preemptive(trace(("long", 0, 1000, 1), ("short", 100, 200, 1)), "oracle", gpus=1, cost=60)
    runs = {run.job.id: run for run in played}
    assert runs[JobId("short")].ended == 300
    assert runs[JobId("long")].ended == 1000 + 200 + 60
    assert (runs[JobId("long")].stops, runs[JobId("long")].lost) == (1, 60)


def test_feedback_pauses_a_job_above_a_threshold() -> None:
    """The long job has been served eight GPU-hours when the other one arrives, which has been served none."""
    jobs = trace(("long", 0, 20 * HOUR, 1), ("short", 10 * HOUR, HOUR, 1))
    runs = {run.job.id: run for run in play_preemptive(jobs, "feedback", gpus=1, cost=0)}
    assert runs[JobId("short")].ended == 11 * HOUR
    assert runs[JobId("long")].ended == 21 * HOUR
    young = trace(("long", 0, 20 * HOUR, 1), ("short", 60, HOUR, 1))
    runs = {run.job.id: run for run in play_preemptive(young, "feedback", gpus=1, cost=0)}
    assert runs[JobId("short")].started > HOUR, "on the same level the older one keeps its GPU"


@pytest.mark.parametrize("policy", ["feedback", "oracle"])
def test_all_work_is_done_once(policy: str) -> None:
    jobs = trace(*[(f"j{n}", 50.0 * n, 100.0 + 700 * (n % 7), 1 + n % 4) for n in range(60)])
    runs = play_preemptive(jobs, policy, gpus=6, cost=30)
    assert len(runs) == 60
    for run in runs:
        assert run.held - run.lost == pytest.approx(run.job.duration * run.job.gpus / 1000)
        assert run.lost <= 30 * run.stops * run.job.gpus / 1000 + 1e-6
    times = sorted({span.start for run in runs for span in run.spans})
    for at in times:
        assert sum(s.gpus for run in runs for s in run.spans if s.start <= at < s.end) <= 6000


def test_a_job_larger_than_the_pool_is_refused() -> None:
    with pytest.raises(Invalid, match="has only 2"):
        play_preemptive(trace(("j", 0, 1, 3)), "oracle", gpus=2, cost=0)
