"""Run times estimated from similar jobs, and the errors of estimated starts."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import JobId
from scheduler.policy import Accuracy, SimilarRuns, forecast
from scheduler.policy.accuracy import ENOUGH, JOBS, SOON
from scheduler.policy.similar import ENOUGH as TELLING
from scheduler.policy.similar import LEAST, Draws, run_time
from scheduler.scenario import read

J = JobId("j")
SPANS = st.lists(st.floats(1, 1e6), min_size=1, max_size=100).map(sorted)


def test_the_most_similar_jobs_with_enough_runs_are_used() -> None:
    runs = SimilarRuns()
    for seconds in range(TELLING):
        assert runs.like(["same", "size"]) == ()
        runs.learn(["other", "size"], float(seconds))
    assert runs.like(["same", "size"]) == (0.0, 1.0, 2.0)
    for _ in range(TELLING):
        runs.learn(["same", "size"], 100.0)
    assert runs.like(["same", "size"]) == (100.0,) * TELLING


@given(SPANS, st.floats(0, 2e6), st.floats(0, 0.99))
def test_a_job_is_expected_to_take_as_long_as_one_that_ran_longer_than_it_has(
    spans: list[float], ran: float, part: float
) -> None:
    found = run_time(spans, ran, part)
    longer = [span for span in spans if span > ran]
    assert found in longer if longer else found >= ran
    if longer:
        assert sum(span < found for span in longer) <= part * len(longer)
    assert run_time([1.0], 100 * LEAST, 0.5) == 200 * LEAST


def test_ends_follow_the_distribution_of_past_runs() -> None:
    draws, spans = Draws(), [float(n) for n in range(100)]
    drawn = sorted(run_time(spans, -1.0, draws.next()) for _ in range(200))
    assert all(abs(seconds - at / 2) <= 2 for at, seconds in enumerate(drawn))


def test_a_gpu_comes_free_when_the_first_of_many_ends_and_not_after_the_median() -> None:
    running = "\n".join(
        f"  - {{name: r{n:02}, project: a, state: running, started: 0, placement: [{{node: n0, gpus: [{n}]}}]}}"
        for n in range(20)
    )
    (snapshot,) = read(
        f"nodes: [{{name: n0, gpus: 20}}]\nprojects: [{{name: a}}]\njobs:\n{running}\n"
        "  - {name: one, project: a}\n  - {name: all, project: a, gpus: 20, priority: 10}"
    )
    spans = tuple(float(100 * n) for n in range(1, 21))
    found = forecast(snapshot, lambda workload: spans)
    assert found.starts[JobId("one")] == 100.0
    assert found.starts[JobId("all")] >= 2000.0
    later = forecast(replace(snapshot, now=1950.0), lambda workload: spans)
    assert later.starts[JobId("one")] == 2000.0, "all that have outlived the others end as the last of them"


def outcomes(accuracy: Accuracy, factors: list[float], ahead: float = 1000.0) -> list[bool]:
    """Whether each start was no later than its latest estimate."""
    found = []
    for number, factor in enumerate(factors):
        now, id = number * 1e6, JobId(f"j{number}")
        accuracy.tell(now, {id: now + ahead})
        (told,) = accuracy.came(id, now + factor * ahead)
        found.append(now + factor * ahead <= told.latest)
    return found


def test_nine_of_ten_starts_are_within_their_range() -> None:
    rng = random.Random(3)
    accuracy = Accuracy()
    outcomes(accuracy, [rng.lognormvariate(0.3, 0.6) for _ in range(ENOUGH - 1)])
    assert accuracy.tell(0.0, {JobId("early"): 1000.0}) == {}
    accuracy.came(JobId("early"), 1000.0)
    inside = outcomes(accuracy, [rng.lognormvariate(0.3, 0.6) for _ in range(1000)])
    assert 0.92 < sum(inside) / len(inside) < 0.98
    earliest, latest = accuracy.tell(0.0, {J: 1000.0})[J]
    assert earliest < 1000 < latest


def test_accurate_estimates_have_a_narrow_range() -> None:
    accuracy = Accuracy()
    outcomes(accuracy, [1.0] * ENOUGH)
    assert accuracy.tell(0.0, {J: 1000.0})[J] == (1000.0, 1000.0)


def test_jobs_that_are_overdue_widen_the_range_before_they_start() -> None:
    accuracy = Accuracy()
    outcomes(accuracy, [1.0] * ENOUGH)
    accuracy.tell(0.0, {JobId(f"late-{n}"): 1000.0 for n in range(ENOUGH)})
    assert accuracy.tell(5000.0, {J: 6000.0})[J][1] >= 10_000


def test_notably_changed_estimates_are_renewed_and_those_of_ended_jobs_are_dropped() -> None:
    accuracy = Accuracy()
    for at, start in ((0.0, 1000.0), (1.0, 1001.0), (2.0, 1000.0 + 3 * SOON), (3.0, 5000.0)):
        accuracy.tell(at, {J: start})
    assert [told.start for told in accuracy.statements[J]] == [1000.0, 1000.0 + 3 * SOON, 5000.0]
    accuracy.keep([])
    assert accuracy.came(J, 7.0) == []
    accuracy.tell(0.0, {JobId(f"j{n}"): 100.0 for n in range(2 * JOBS)})
    assert len(accuracy.statements) == JOBS
