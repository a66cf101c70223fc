"""Windows: what is refused, and that each is in force exactly while the local time is inside it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.errors import Invalid
from scheduler.model import ONE, Pool, Project, ProjectName, Window, guaranteed_at, pool_at
from scheduler.pool.file import file_of, parse, pool_of
from scheduler.pool.windows import in_words, read_window
from scheduler.schema import WindowEntry

CLASS = 'days: mon-fri, from: "09:00", to: "12:00", timezone: Europe/Berlin, guaranteed: 20'
NIGHT = 'days: "fri-sun", from: "22:00", to: "06:00", timezone: Europe/Berlin, guaranteed: 8'


def declared(*windows: str, **more: object) -> Pool:
    lines = "\n".join(f"  - {{{window}}}" for window in windows)
    project = "".join(f"  {key}: {value}\n" for key, value in more.items())
    return pool_of(parse(f"projects:\n- name: class\n{project}  windows:\n{lines}\n"), Pool(), 0)


@pytest.mark.parametrize(
    ("windows", "sentence"),
    [
        ([CLASS.replace("Berlin", "Berln")], "there is no time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?"),
        ([CLASS.replace("Europe/Berlin", "/etc/passwd")], "there is no time zone '/etc/passwd'"),
        (
            [CLASS.replace('"12:00"', "12:00")],
            'windows[0].to must be a time of day in quotes, such as "09:00", not 720',
        ),
        ([CLASS.replace("mon-fri", "workdays")], "must be days of the week, such as mon-fri or tue,fri"),
        ([CLASS.replace("12:00", "09:00")], "windows[0] is empty: it is from 09:00 to 09:00"),
        ([CLASS + ", first: 2026-12-05, last: 2026-12-06"], "is empty: no day from 2026-12-05 to 2026-12-06"),
        ([CLASS, CLASS.replace("09:00", "11:59")], "windows[1] overlaps projects[0].windows[0] on Monday"),
        ([NIGHT, CLASS.replace("09:00", "05:00")], "overlaps projects[0].windows[0] on Monday"),
        ([CLASS, NIGHT.replace("Europe/Berlin", "UTC")], "give all windows of a project the same time zone"),
    ],
)
def test_a_mistake_is_refused_with_its_place(windows: list[str], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        declared(*windows)
    assert sentence in refused.value.sentence
    assert str(refused.value.field).startswith("projects[0].windows[")


def test_a_window_stays_within_the_limit() -> None:
    with pytest.raises(Invalid, match=r"windows\[0\].guaranteed \(20\) is above the limit of the project \(10\)"):
        declared(CLASS, limit=10)


def test_adjacent_windows_are_accepted() -> None:
    declared(CLASS, CLASS.replace("12:00", "15:00").replace("09:00", "12:00"), NIGHT)


def test_there_and_back_changes_nothing() -> None:
    pool = declared(
        CLASS,
        NIGHT + ", first: 2026-12-01",
        'from: "13:00", days: "mon,wed", timezone: Europe/Berlin, guaranteed: null',
    )
    file = file_of(pool)
    assert pool_of(file, pool, 0) == pool
    for window in file.projects[0].windows:
        assert WindowEntry.model_validate(read_window(in_words(window))) == window


ZONES = ["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]
CLOCKS_SET = [
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2018, 11, 4, 3, tzinfo=UTC),
]


def in_force(window: Window, at: datetime) -> bool:
    """By local time, minute by minute: the slow and obvious reference."""
    wall = at.astimezone(ZoneInfo(window.timezone))
    for day in (wall.date(), wall.date() - timedelta(days=1)):
        if day.weekday() not in window.days or not (window.first or day) <= day <= (window.last or day):
            continue
        minute = wall.hour * 60 + wall.minute + (0 if day == wall.date() else 1440)
        end = window.end if window.end > window.start else window.end + 1440
        if window.start <= minute < end:
            return True
    return False


@given(
    zone=st.sampled_from(ZONES),
    days=st.sets(st.integers(0, 6), min_size=1),
    times=st.lists(st.integers(0, 47), min_size=2, max_size=2, unique=True),
    span=st.none() | st.integers(-2, 2),
    near=st.sampled_from(CLOCKS_SET),
    hours=st.integers(-30, 30),
)
@example("Europe/Berlin", {5, 6}, [4, 5], None, CLOCKS_SET[0], -10)
@example("Europe/Berlin", {5, 6}, [5, 7], None, CLOCKS_SET[1], -10)
@example("America/Sao_Paulo", {5, 6}, [0, 4], None, CLOCKS_SET[2], -10)
def test_a_window_is_in_force_while_the_clock_on_the_wall_shows_a_time_inside_it(
    zone: str, days: set[int], times: list[int], span: int | None, near: datetime, hours: int
) -> None:
    start, end = (30 * time for time in times)
    first = None if span is None else near.date() + timedelta(days=span)
    last = None if first is None else first + timedelta(days=1)
    window = Window(8 * ONE, zone, tuple(sorted(days)), start, end, first, last)
    project = Project(ProjectName("class"), guaranteed=ONE, windows=(window,))
    begin = near + timedelta(hours=hours)
    pool = pool_at(Pool(projects=(project,)), begin.timestamp())
    found = pool.pool.projects[0]
    minutes = [begin + timedelta(minutes=minute) for minute in range(0, 3 * 1440, 15)]
    amounts = [8 * ONE if in_force(window, each) else ONE for each in minutes]
    assert [guaranteed_at(project, each.timestamp()) for each in minutes] == amounts
    assert found.guaranteed == amounts[0]
    expected = [
        (each.timestamp(), amount)
        for each, before, amount in zip(minutes[1:], amounts, amounts[1:], strict=False)
        if amount != before
    ]
    changes = [(change.at, change.guaranteed) for change in found.changes]
    assert len(changes) >= min(4, len(expected))
    assert changes[: len(expected)] == expected[: len(changes)]
    if changes:
        assert pool.until == changes[0][0]


def test_a_deadline_week_far_ahead_is_known() -> None:
    window = Window(8 * ONE, "UTC", first=date(2031, 5, 5), last=date(2031, 5, 11))
    project = Project(ProjectName("paper"), windows=(window,))
    (found,) = pool_at(Pool(projects=(project,)), 0.0).pool.projects
    begin, end = datetime(2031, 5, 5, tzinfo=UTC), datetime(2031, 5, 12, tzinfo=UTC)
    assert [change.at for change in found.changes] == [begin.timestamp(), end.timestamp()]
