"""Converts the windows of a project between the pool file and the model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from difflib import get_close_matches
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from scheduler.errors import Invalid
from scheduler.model import ONE, Milli, Project, Window, begins_on
from scheduler.schema import WindowEntry
from scheduler.schema.reading import milli

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_DAY = timedelta(days=1)


def window_entries(project: Project) -> list[WindowEntry]:
    """The windows of a project, as in a pool file."""
    return [
        WindowEntry.model_validate(
            {
                "days": _days_in_words(window.days),
                "from": clock_time(window.start),
                "to": clock_time(window.end),
                "first": window.first,
                "last": window.last,
                "timezone": window.timezone,
                "guaranteed": None if window.guaranteed is None else window.guaranteed / ONE,
            }
        )
        for window in project.windows
    ]


def windows_of(entries: Sequence[WindowEntry], limit: Milli | None, place: str) -> tuple[Window, ...]:
    """The windows that `entries` declare for a project with this limit. Raises `Invalid`, with the place."""
    found = list[Window]()
    for n, entry in enumerate(entries):
        here = f"{place}[{n}]"
        window = _window(entry, here)
        if limit is not None and (window.guaranteed is None or window.guaranteed > limit):
            amount = "unlimited" if entry.guaranteed is None else f"{entry.guaranteed:g}"
            raise Invalid(
                f"{here}.guaranteed ({amount}) is above the limit of the project ({limit / ONE:g}); lower one or raise "
                "the other.",
                field=f"{here}.guaranteed",
            )
        for m, other in enumerate(found):
            if other.timezone != window.timezone:
                raise Invalid(
                    f"{here}.timezone is {window.timezone}, and that of {place}[{m}] is {other.timezone}; give all "
                    "windows of a project the same time zone.",
                    field=f"{here}.timezone",
                )
            if (both := _both(window, other)) is not None:
                raise Invalid(
                    f"{here} overlaps {place}[{m}] on {both:%A}, {both:%Y-%m-%d}; change one of them, so that only one "
                    "is in force at any time.",
                    field=here,
                )
        found.append(window)
    return tuple(found)


def in_words(entry: WindowEntry) -> str:
    """`mon-fri 09:00-12:00 Europe/Berlin guaranteed=20`, as `read_window` reads it."""
    dates = "" if entry.first is None and entry.last is None else f"{entry.first or ''}..{entry.last or ''}"
    amount = "none" if entry.guaranteed is None else f"{entry.guaranteed:g}"
    parts = (entry.days, dates, f"{entry.from_}-{entry.to}", entry.timezone, f"guaranteed={amount}")
    return " ".join(filter(None, parts))


def read_window(text: str) -> dict[str, Any]:
    """Read a window in words, as in a pool file: days, dates and times in any order. Raises `ValueError`."""
    found: dict[str, Any] = {}
    for word in text.split():
        name, _, amount = word.partition("=")
        if name == "guaranteed":
            given: dict[str, Any] = {"guaranteed": None if amount == "none" else float(amount)}
        elif ".." in word:
            first, _, last = word.partition("..")
            given = {"first": first or None, "last": last or None}
        elif ":" in word:
            begin, _, end = word.partition("-")
            given = {"from": begin, "to": end}
        elif word[:3] in WEEKDAYS and len(word.split(",")[0]) in (3, 7):
            given = {"days": word}
        else:
            given = {"timezone": word}
        if given.keys() & found.keys():
            raise ValueError
        found |= given
    if not {"timezone", "guaranteed"} <= found.keys():
        raise ValueError
    return found


def check_timezone(name: str, field: str) -> None:
    """Raises `Invalid` for a time zone that does not exist, with what was probably meant."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = get_close_matches(name, available_timezones(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "write one such as 'Europe/Berlin' or 'UTC'."
        raise Invalid(f"{field}: there is no time zone {name!r}; {hint}", field=field) from None


def _window(entry: WindowEntry, place: str) -> Window:
    check_timezone(entry.timezone, f"{place}.timezone")
    window = Window(
        guaranteed=None if entry.guaranteed is None else milli(entry.guaranteed, f"{place}.guaranteed"),
        timezone=entry.timezone,
        days=_days_of(entry.days),
        start=_minute(entry.from_),
        end=_minute(entry.to),
        first=entry.first,
        last=entry.last,
    )
    if window.start in (window.end, 1440):
        raise Invalid(
            f"{place} is empty: it is from {entry.from_} to {entry.to}; for a whole day, write from 00:00 to 24:00.",
            field=f"{place}.to",
        )
    if window.first is not None and window.last is not None and not _begins(window, window.first, window.last):
        raise Invalid(
            f"{place} is empty: no day from {window.first} to {window.last} is one of {entry.days}; change the days or "
            "the dates.",
            field=f"{place}.last",
        )
    return window


def _begins(window: Window, first: date, last: date) -> bool:
    """Whether it begins on any day from `first` to `last`."""
    return any(begins_on(window, first + n * _DAY) for n in range(min(7, (last - first).days + 1)))


def _both(one: Window, other: Window) -> date | None:
    """The first day on which both are in force at the same time."""
    firsts = [each.first for each in (one, other) if each.first is not None]
    lasts = [each.last for each in (one, other) if each.last is not None]
    # The part after midnight belongs to the day before. Days recur after a week.
    begin = max(firsts, default=date(2024, 1, 1))
    days = [begin + n * _DAY for n in range(9) if not lasts or begin + n * _DAY <= min(lasts) + _DAY]
    return next((day for day in days if _meet(_on_day(one, day), _on_day(other, day))), None)


def _on_day(window: Window, day: date) -> list[tuple[int, int]]:
    """The minutes of a day in which it is in force."""
    if window.start < window.end:
        return [(window.start, window.end)] if begins_on(window, day) else []
    begun = [(window.start, 1440)] if begins_on(window, day) else []
    return [*begun, (0, window.end)] if begins_on(window, day - _DAY) else begun


def _meet(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool:
    return any(max(a, c) < min(b, d) for a, b in one for c, d in other)


def _minute(time: str) -> int:
    hours, minutes = time.split(":")
    return 60 * int(hours) + int(minutes)


def clock_time(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _days_of(words: str) -> tuple[int, ...]:
    """`mon-wed,fri` as numbers; a span may go over the end of the week."""
    found = set[int]()
    for word in words.split(","):
        first, _, last = word.partition("-")
        begin = WEEKDAYS.index(first)
        count = (WEEKDAYS.index(last or first) - begin) % 7
        found.update([(begin + n) % 7 for n in range(count + 1)])
    return tuple(sorted(found))


def _days_in_words(days: Sequence[int]) -> str:
    spans = list[list[int]]()
    for day in days:
        if spans and spans[-1][-1] == day - 1:
            spans[-1].append(day)
        else:
            spans.append([day])
    return ",".join(
        WEEKDAYS[span[0]] if len(span) == 1 else f"{WEEKDAYS[span[0]]}-{WEEKDAYS[span[-1]]}" for span in spans
    )
