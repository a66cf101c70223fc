"""Guarantees that change by calendar: the amount in force at an instant, and the next changes.

A window is in force exactly while the clock on the wall in its time zone shows a time inside it. Where clocks are set
forward or back, a window that begins or ends in the hour that is missing begins or ends when clocks are set, and one
inside the hour that comes twice is in force twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from scheduler.model.amounts import Milli
from scheduler.model.declared import GuaranteeChange, Pool, Project, Window

UPCOMING = 4
"""The most future changes of a guarantee that are computed."""

REMEMBERED = 3
"""So many of the latest pools are kept besides the newest."""

DAY = timedelta(days=1)

_WEEK = range(-1, 9)
"""The days around one that contain every boundary of a window that recurs weekly."""


@dataclass(frozen=True, slots=True)
class PoolInForce:
    """The pool in force from `since` until before `until` (`None`: forever)."""

    pool: Pool
    since: float
    until: float | None

    def holds_at(self, now: float) -> bool:
        return self.since <= now and (self.until is None or now < self.until)


def pool_at(declared: Pool, now: float, epoch: float = 0.0) -> PoolInForce:
    """The pool with the guarantees that are in force now, each with the next changes of it.

    Times are seconds since `epoch`, which itself is in seconds since the epoch of Unix.
    """
    projects = tuple([_project_at(project, now, epoch) for project in declared.projects])
    if all(found is project for found, project in zip(projects, declared.projects, strict=True)):
        return PoolInForce(declared, now, None)
    until = min([project.changes[0].at for project in projects if project.changes], default=None)
    return PoolInForce(replace(declared, projects=projects), now, until)


class InForce:
    """What is in force, worked out once for all who ask, and by `look_ahead` before it is."""

    def __init__(self) -> None:
        self._known: tuple[tuple[Pool, PoolInForce], ...] = ()

    def at(self, declared: Pool, now: float) -> PoolInForce:
        for pool, found in self._known:
            if pool is declared and found.holds_at(now):
                return found
        found = pool_at(declared, now)
        self._known = (*self._known[-REMEMBERED:], (declared, found))
        return found

    def look_ahead(self, declared: Pool, now: float) -> None:
        """Work out what is in force after the next change; in another thread, since that takes a while in a pool with
        many windows."""
        change = self.at(declared, now).until
        if change is not None:
            self.at(declared, change)


def _project_at(project: Project, now: float, epoch: float) -> Project:
    """A project with what it is guaranteed now, and the next changes of that."""
    if not project.windows:
        return project
    changes = tuple(islice(_changes(project, now + epoch), UPCOMING))
    if epoch:
        changes = tuple(replace(change, at=change.at - epoch) for change in changes)
    return replace(project, guaranteed=guaranteed_at(project, now + epoch), changes=changes)


def guaranteed_at(project: Project, now: float) -> Milli | None:
    """What a project is guaranteed at an instant; `None`: without bound."""
    if not project.windows:
        return project.guaranteed
    wall = datetime.fromtimestamp(now, _zone(project))
    return next((window.guaranteed for window in project.windows if covers(window, wall)), project.guaranteed)


def begins_on(window: Window, day: date) -> bool:
    """Whether the window begins on a day."""
    return (
        day.weekday() in window.days
        and (window.first is None or window.first <= day)
        and (window.last is None or day <= window.last)
    )


def covers(window: Window, wall: datetime) -> bool:
    """Whether the window is in force when a clock in its time zone shows this."""
    minute = wall.hour * 60 + wall.minute
    if window.start < window.end:
        return window.start <= minute < window.end and begins_on(window, wall.date())
    return (minute >= window.start and begins_on(window, wall.date())) or (
        minute < window.end and begins_on(window, wall.date() - DAY)
    )


def _changes(project: Project, now: float) -> Iterator[GuaranteeChange]:
    """The next changes, the first one always, however far ahead it is."""
    before = guaranteed_at(project, now)
    for at in _boundaries(project, now):
        amount = guaranteed_at(project, at)
        if amount != before:
            yield GuaranteeChange(at, amount, project.windows[0].timezone)
            before = amount


def _boundaries(project: Project, after: float) -> Sequence[float]:
    """Instants in order, among them every one at which a window may begin or end next."""
    zone, found = _zone(project), set[float]()
    minutes = {minute for window in project.windows for minute in (window.start, window.end)}
    for day in _days(project.windows, datetime.fromtimestamp(after, zone).date()):
        midnight, set_at = _day(day, zone)
        found.update(set_at)
        if not set_at:
            begin = midnight.timestamp()
            found.update([begin + 60 * minute for minute in minutes])
            continue
        walls = [midnight + timedelta(minutes=minute) for minute in minutes]
        found.update([each.timestamp() for wall in walls for each in (wall, wall.replace(fold=1))])
    return sorted(instant for instant in found if instant > after)


@lru_cache(maxsize=4096)
def _day(day: date, zone: ZoneInfo) -> tuple[datetime, tuple[float, ...]]:
    """When a day begins in a time zone, and when clocks are set on it or the days beside it."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    return midnight, tuple(_clock_set(midnight + DAY / 2))


def _days(windows: Sequence[Window], today: date) -> Sequence[date]:
    """The days on which something may change next."""
    around = {today + n * DAY for n in _WEEK}
    for window in windows:
        around.update([window.first + n * DAY for n in _WEEK] if window.first else ())
        around.update([window.last + n * DAY for n in range(3)] if window.last else ())
    return sorted(
        day
        for day in around
        if day >= today - DAY and any(begins_on(window, each) for window in windows for each in (day, day - DAY))
    )


def _clock_set(noon: datetime) -> Iterator[float]:
    """When clocks are set in the 24 hours before and after `noon`: the first second of the new time."""
    for one, other in ((noon - DAY, noon), (noon, noon + DAY)):
        if one.utcoffset() == other.utcoffset():
            continue
        low, high = int(one.timestamp()), int(other.timestamp())
        while high - low > 1:
            middle = (low + high) // 2
            if datetime.fromtimestamp(middle, one.tzinfo).utcoffset() == one.utcoffset():
                low = middle
            else:
                high = middle
        yield float(high)


def _zone(project: Project) -> ZoneInfo:
    """All windows of a project are of one time zone."""
    return ZoneInfo(project.windows[0].timezone)
