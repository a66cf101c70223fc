"""A job's reports are one line over all its attempts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_ext.reports import Point, continuous, frame


def point(attempt: int, step: int, rank: int = 0, at: float = 0) -> Point:
    return {"time": at, "attempt": attempt, "rank": rank, "step": step, "loss": 1 / step}


def test_repeated_steps_of_a_later_attempt_count_once() -> None:
    told = [point(1, step) for step in (1, 2, 3, 4)] + [point(2, step) for step in (3, 4, 5)]
    assert [(p["attempt"], p["step"]) for p in continuous(told)] == [(1, 1), (1, 2), (2, 3), (2, 4), (2, 5)]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6))
def test_the_line_never_goes_back(attempts: list[tuple[int, int]]) -> None:
    told = [
        point(number, step)
        for number, (begin, length) in enumerate(attempts, start=1)
        for step in range(begin, begin + length)
    ]
    steps = [p["step"] for p in continuous(told)]
    assert steps == sorted(set(steps))
    assert steps[-1] == sum(attempts[-1]) - 1


def test_a_frame_has_a_row_for_each_report() -> None:
    table = frame([{**point(1, 1), "note": "ok"}, {**point(1, 2), "time": 60}])
    assert [*table.columns] == ["time", "attempt", "rank", "step", "loss", "note"]
    assert (table["time"].iloc[1] - table["time"].iloc[0]).total_seconds() == 60
    assert len(frame([])) == 0
