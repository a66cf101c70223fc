"""The history of the pool: averages in periods whose length fits the span."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.poolhistory import STEPS, step_for
from scheduler.model import PoolUse
from scheduler.store import ChangeSet, PoolRecord
from scheduler.store.poolhistory import LEVELS
from tests.api.conftest import Service

MARCH = 1_772_323_200


async def test_it_has_averages_and_leaves_out_what_is_not_known(service: Service) -> None:
    used = PoolUse(60, held=240, measured=120, idle=30, queued=180, starts=2, wait=30, longest_wait=20)
    started = PoolUse(starts=1, wait=4, longest_wait=4)  # nothing is sampled yet
    history = (
        PoolRecord(MARCH, used),
        PoolRecord(MARCH + 60, PoolUse(60, queued=None)),
        PoolRecord(MARCH + 120, started),
    )
    await service.store.write(ChangeSet(history=history))
    query: dict[str, Any] = {"since": MARCH + 10, "until": MARCH + 180}
    found = (await service.http["admin"].get("pool/history", params={**query, "points": 1})).json()
    assert (found["step"], len(found["points"])) == (86_400, 1)  # of that time, only days are kept
    (day,) = found["points"]
    assert day == {
        "start": MARCH,
        "allocated": 2,
        "used": 0.75,
        "idle": 0.25,
        "queued": None,
        "starts": 3,
        "mean_wait": pytest.approx(34 / 3, abs=0.001),
        "longest_wait": 20,
    }
    refused = await service.http["admin"].get("pool/history", params={"since": MARCH, "until": MARCH})
    assert (refused.status_code, "the span ends before it begins" in refused.text) == (422, True)


@given(st.floats(60, 300 * 86_400), st.floats(0, 80 * 86_400), st.integers(1, 1000))
def test_a_period_is_as_short_as_points_and_record_allow(length: float, ago: float, points: int) -> None:
    now = 1_800_000_000.0
    until = now - ago
    length = until - (since := until - length)
    step = step_for(since, until, now, points)
    kept = next(seconds for seconds, kept in LEVELS if since >= now - kept)
    assert step % kept == 0
    assert length // step <= points or step == STEPS[-1]
    shorter = [each for each in STEPS if kept <= each < step]
    assert all(length // each > points for each in shorter)


@pytest.mark.parametrize(
    ("length", "points", "step"),
    [(3600, 60, 60), (86_400, 96, 900), (7 * 86_400, 168, 3600), (30 * 86_400, 30, 86_400)],
)
def test_the_spans_of_the_page_keep_their_periods_while_the_request_takes_its_time(
    length: int, points: int, step: int
) -> None:
    now = 1_800_000_000.7
    assert step_for(now - 0.7 - length, now, now, points) == step


def test_each_period_is_a_multiple_of_the_shorter_ones() -> None:
    assert all(longer % shorter == 0 for shorter, longer in pairwise(STEPS))
