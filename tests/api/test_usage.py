"""Use is reported for any span, grouped, to permitted callers."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from scheduler.model import Consumer, Consumption, Environment, GpuType, ProjectName, UserName
from scheduler.store import ChangeSet, UsageRecord
from tests.api.conftest import Service

DAY = 86_400
MARCH = 1_772_323_200
"""The first of March 2026, a Sunday, as an instant."""


def used(start: int, user: str, project: str = "vision", **amounts: Any) -> UsageRecord:
    environment = Environment.TRAIN if project else Environment.BUILD
    consumer = Consumer(environment, ProjectName(project), UserName(user), GpuType("A100"))
    return UsageRecord(start, consumer, Consumption(**{"held": 3600.0, **amounts}))


@pytest.fixture
async def service(service: Service) -> Service:
    """With a few recorded days."""
    await service.store.write(
        ChangeSet(
            accounted=(
                used(MARCH, "ann", held=7200.0, measured=3600.0, idle=1800.0, starts=2, wait=60.0, longest_wait=50.0),
                used(MARCH + 3600, "ben", reclaims=1, lost=900.0),
                used(MARCH + DAY, "zoe", "speech"),
                used(MARCH + 31 * DAY, "ann", ""),
            )
        )
    )
    return service


async def report(service: Service, who: str, **query: Any) -> list[dict[str, Any]]:
    answer = await service.http[who].get("usage", params={"since": MARCH, "until": MARCH + 60 * DAY, **query})
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["rows"]
    return rows


async def test_use_is_summed_by_the_requested_columns(service: Service) -> None:
    (total,) = await report(service, "admin")
    assert total["gpu_hours"] == 5
    assert total["start"] is total["user"] is None
    (ann, *_) = await report(service, "admin", by=["project", "user"], user="ann", environment="train")
    assert {name: ann[name] for name in ann if name not in ("start", "environment", "gpu_type")} == {
        "project": "vision",
        "user": "ann",
        "gpu_hours": 2,
        "measured_gpu_hours": 1,
        "idle_gpu_hours": 0.5,
        "starts": 2,
        "mean_wait": 30,
        "longest_wait": 50,
        "reclaims": 0,
        "lost_gpu_hours": 0,
    }
    assert [(row["reclaims"], row["lost_gpu_hours"]) for row in await report(service, "admin", user="ben")] == [
        (1, 0.25)
    ]


@pytest.mark.parametrize(
    ("every", "starts"),
    [
        ("hour", [0, 1 / 24, 1, 31]),
        ("day", [0, 1, 31]),
        ("week", [-6, 1, 29]),
        ("month", [0, 31]),
    ],
)
async def test_periods_begin_at_calendar_boundaries(service: Service, every: str, starts: list[float]) -> None:
    rows = await report(service, "admin", every=every)
    assert [(row["start"] - MARCH) / DAY for row in rows] == starts


async def test_callers_see_their_own_use_and_that_of_their_projects(service: Service) -> None:
    async def seen(who: str) -> list[tuple[str, str]]:
        return sorted((row["project"], row["user"]) for row in await report(service, who, by=["project", "user"]))

    assert await seen("owner") == [("", "ann"), ("vision", "ann"), ("vision", "ben")]
    assert await seen("mate") == [("vision", "ann"), ("vision", "ben")]
    assert await seen("stranger") == [("speech", "zoe")]
    assert len(await seen("admin")) == 4


async def test_the_table_is_for_spreadsheets_and_holds_no_formula(service: Service) -> None:
    await service.store.write(ChangeSet(accounted=(used(MARCH, "=1+1"),)))
    query: dict[str, Any] = {"since": MARCH, "until": MARCH + DAY, "by": "user", "every": "day"}
    answer = await service.http["admin"].get("usage.csv", params=query)
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["start"], row["user"], row["gpu_hours"]) for row in rows] == [
        ("2026-03-01 00:00", "'=1+1", "1.0"),
        ("2026-03-01 00:00", "ann", "2.0"),
        ("2026-03-01 00:00", "ben", "1.0"),
    ]
    assert "project" not in rows[0]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"since": MARCH + DAY, "until": MARCH}, "the span ends before it begins"),
        ({"by": "colour"}, "'environment', 'project', 'user' or 'gpu_type'"),
        ({"every": "year"}, "'hour', 'day', 'week' or 'month'"),
        ({"since": "yesterday"}, "since should be a valid number"),
        ({"until": "1e300"}, "until should be less than"),
    ],
)
async def test_an_invalid_query_is_refused_in_one_sentence(
    service: Service, query: dict[str, Any], sentence: str
) -> None:
    answer = await service.http["admin"].get("usage", params=query)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


async def test_a_too_large_answer_is_refused_with_advice(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.api.usage.MOST", 2)
    answer = await service.http["admin"].get("usage", params={"since": MARCH, "by": "user"})
    assert "ask for a shorter span, longer periods, or fewer groups" in answer.json()["detail"]
