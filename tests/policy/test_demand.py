"""The demand for GPUs by the hour, and its forecast."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.policy.demand import HOUR, WEEK, demand_by_hour, forecast, measured

amounts = st.floats(0, 100)
weeks = st.lists(amounts, min_size=WEEK, max_size=WEEK)
jobs = st.lists(
    st.tuples(st.floats(-5, 15), st.floats(0, 15), st.integers(1, 8000)).map(
        lambda job: (job[0] * HOUR, (job[0] + job[1]) * HOUR, job[2])
    ),
    max_size=20,
)


@given(jobs)
def test_the_demand_is_all_that_jobs_held_and_waited_for_in_the_hours(some: list[tuple[float, float, int]]) -> None:
    found = demand_by_hour(some, 0, 10)
    total = sum(max(0.0, min(end, 10 * HOUR) - max(start, 0)) * gpus / 1000 for start, end, gpus in some) / HOUR
    assert sum(found) == pytest.approx(total, abs=1e-6)
    assert min(found) >= 0


def test_a_job_counts_from_its_submission_to_its_end() -> None:
    assert demand_by_hour([(1.5 * HOUR, 3.25 * HOUR, 4000)], 0, 5) == [0, 2, 4, 1, 0]
    assert demand_by_hour([(0.25 * HOUR, 0.5 * HOUR, 4000)], 0, 1) == [1]


@settings(max_examples=20, deadline=None)
@given(weeks, st.integers(1, 4), st.integers(0, WEEK - 1))
def test_a_demand_that_repeats_every_week_is_forecast_exactly(week: list[float], times: int, rest: int) -> None:
    history = week * times + week[:rest]
    assert [hour.median for hour in forecast(history)] == week[rest:] + week[:rest]
    error = measured(history)
    assert (error is None) == (len(history) < 2 * WEEK)
    assert error is None or (error.mean_absolute, error.within) == (0, 1)


@settings(max_examples=20, deadline=None)
@given(st.lists(amounts, min_size=WEEK, max_size=3 * WEEK))
def test_the_range_contains_the_median_and_only_what_was_seen(history: list[float]) -> None:
    for hour in forecast(history):
        assert min(history) <= hour.low <= hour.median <= hour.high <= max(history)


def test_the_error_is_measured_on_the_latest_week() -> None:
    error = measured([2.0] * 2 * WEEK + [3.0] * WEEK)
    assert error is not None
    assert (error.mean_absolute, error.within) == (1, 0)
    assert forecast([1.0] * (WEEK - 1)) == []
