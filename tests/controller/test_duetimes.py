"""The next time of a schedule, compared with a slow reference that looks at every minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller.duetimes import activated, after_run, is_due, next_time, paused
from scheduler.errors import Invalid
from scheduler.model import Schedule, ScheduleId, UserName

HORIZON = timedelta(days=3)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Field:
    """A field of a cron expression, and the numbers that it stands for."""

    text: str
    numbers: frozenset[int]


def fields(low: int, high: int) -> st.SearchStrategy[Field]:
    number = st.integers(low, high)
    one = number.map(lambda n: Field(str(n), frozenset({n})))
    span = (
        st.tuples(number, number).map(sorted).map(lambda p: Field(f"{p[0]}-{p[1]}", frozenset(range(p[0], p[1] + 1))))
    )
    step = st.integers(1, high).map(lambda n: Field(f"*/{n}", frozenset(range(low, high + 1, n))))
    several = st.lists(st.one_of(one, span), min_size=2, max_size=3).map(
        lambda found: Field(",".join(f.text for f in found), frozenset().union(*(f.numbers for f in found)))
    )
    return st.one_of(st.just(Field("*", frozenset(range(low, high + 1)))), one, span, step, several)


zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata"])
# Clocks are set in Berlin, New York or Sydney within the following days, in both directions.
moments = st.builds(
    lambda day, seconds: day.timestamp() + seconds,
    st.sampled_from(
        [
            datetime(2026, month, day, tzinfo=UTC)
            for month, day in ((3, 7), (3, 28), (4, 3), (10, 2), (10, 24), (10, 31))
        ]
    ),
    st.floats(0, 2 * 86400),
)


def reference(minutes: Field, hours: Field, weekdays: Field, zone: ZoneInfo, after: float) -> float | None:
    """The first time after an instant, within the horizon."""

    def matches(wall: datetime) -> bool:
        return (
            wall.minute in minutes.numbers
            and wall.hour in hours.numbers
            and bool(weekdays.numbers & ({0, 7} if wall.isoweekday() == 7 else {wall.isoweekday()}))
        )

    begin = datetime.fromtimestamp(after // 60 * 60, UTC)
    minutes_on = [n * MINUTE for n in range(int(HORIZON / MINUTE))]
    if minutes.text.startswith("*") or hours.text.startswith("*"):
        clock = ((begin + on).astimezone(zone) for on in minutes_on)
        return next((at.timestamp() for at in clock if at.timestamp() > after and matches(at)), None)
    # An hour that is left out may have begun before.
    first = begin.astimezone(zone).replace(tzinfo=None) - timedelta(hours=1)
    found = (_first_that_exists(first + on, zone) for on in minutes_on if matches(first + on))
    return min((at for at in found if at > after), default=None)


def _first_that_exists(wall: datetime, zone: ZoneInfo) -> float:
    while (at := wall.replace(tzinfo=zone)).astimezone(UTC).astimezone(zone) != at:
        wall += MINUTE
    return at.timestamp()


@given(fields(0, 59), fields(0, 23), fields(0, 7), zones, moments)
def test_the_next_time_is_the_first_one_that_matches(
    minutes: Field, hours: Field, weekdays: Field, name: str, after: float
) -> None:
    found = next_time(f"{minutes.text} {hours.text} * * {weekdays.text}", name, after)
    expected = reference(minutes, hours, weekdays, ZoneInfo(name), after)
    if expected is None:
        assert found is None or found >= after + HORIZON.total_seconds() - 2 * 3600
    else:
        assert found == expected


def at(text: str, zone: str = "Europe/Berlin", fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("0 2 * * *", at("2026-01-05T02:00"), at("2026-01-06T02:00")),
        ("30 2 * * *", at("2026-03-28T12:00"), at("2026-03-29T03:00")),
        ("30 2 * * *", at("2026-03-29T03:00"), at("2026-03-30T02:30")),
        ("30 2 * * *", at("2026-10-25T02:30"), at("2026-10-26T02:30")),
        ("30 2 * * *", at("2026-10-25T02:10", fold=1), at("2026-10-26T02:30")),
        ("*/30 * * * *", at("2026-10-25T02:30"), at("2026-10-25T02:00", fold=1)),
        ("0 9 1 * *", at("2026-01-05T02:00"), at("2026-02-01T09:00")),
        ("0 9 * feb MON#1", at("2026-01-05T02:00"), at("2026-02-02T09:00")),
    ],
)
def test_the_clock_of_the_time_zone_counts(cron: str, after: float, expected: float) -> None:
    assert next_time(cron, "Europe/Berlin", after) == expected


@pytest.mark.parametrize(
    "cron", ["", "x", "61 * * * *", "* * * *", "0 0 2 * * *", "@daily", "5-1 * * * *", "0 0 30 2 *"]
)
def test_what_is_no_cron_expression_is_refused_with_an_example(cron: str) -> None:
    with pytest.raises(Invalid, match=r"is not a cron expression .* such as '0 2 \* \* \*'") as refused:
        next_time(cron, "UTC", 0.0)
    assert refused.value.field == "cron"


@given(st.text("0123456789*/,-#LW MONfeb²", max_size=30))
def test_any_text_has_a_time_or_is_refused(text: str) -> None:
    try:
        found = next_time(text, "UTC", 0.0)
    except Invalid:
        return
    assert found is None or found > 0


def test_an_unknown_time_zone_is_refused_with_what_was_meant() -> None:
    with pytest.raises(Invalid, match="did you mean 'Europe/Berlin'"):
        next_time("0 2 * * *", "Europe/Berln", 0.0)


@given(fields(0, 59), fields(0, 23), zones, moments, st.lists(st.floats(1, 86400), max_size=8), st.booleans())
def test_what_was_missed_runs_once_and_a_pause_is_not_made_up_for(
    minutes: Field, hours: Field, name: str, begin: float, pauses: list[float], pausing: bool
) -> None:
    schedule = Schedule(
        ScheduleId("c"), "c", UserName("ann"), f"{minutes.text} {hours.text} * * *", name, {}, created=begin
    )
    schedule, now = activated(schedule, begin), begin
    for seconds in pauses:
        last, now = now, now + seconds
        first = next_time(schedule.cron, name, last)
        assert first is not None
        assert is_due(schedule, now) == (first <= now)
        if pausing:
            schedule = activated(paused(schedule, now), now)
        elif is_due(schedule, now):
            schedule = after_run(schedule, now)
        assert not is_due(schedule, now)
