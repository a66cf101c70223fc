"""The record of use: by hour for two weeks, then by day (UTC) for thirteen months.

What must hold: however long the scheduler runs, and for however many users, there are at most
`(HOURS + DAYS + 24) × MOST` rows, except for the latest hours, which are not yet condensed. Condensing keeps the sums:
consumers beyond the largest of a period are counted as one without a name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite

from scheduler.model import Consumer, Consumption
from scheduler.store import tables

HOUR = 3600
DAY = 86_400

HOURS = 14 * 24
"""The number of hours that are kept …"""

DAYS = 397
"""… and of days: thirteen months."""

MOST = 1000
"""The most consumers of one period; the smallest ones beyond it are added up."""

_TABLE = tables.accounting
_C = _TABLE.c
_PERIOD = (_C.start, _C.seconds)
_WHO = tuple(each.name for each in fields(Consumer))
_CONSUMER = tuple(_C[name] for name in _WHO)
_AMOUNTS = tuple(each.name for each in fields(Consumption))


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """The use of a consumer in the hour that begins at `start` (seconds since the epoch)."""

    start: int
    consumer: Consumer
    used: Consumption


@dataclass(frozen=True, slots=True)
class WantedUsage:
    """A query for the use in periods that begin at or after `since` and before `until`, and that meet all further
    conditions; `None` is no condition.

    It is summed for each value of the columns `by`; with `every` (length, offset from the epoch; seconds) also for each
    period. `visible` is a user and projects: only the use of that user or of those projects. At most `limit` sums are
    read.
    """

    since: float
    until: float
    by: Sequence[str] = ()
    every: tuple[int, int] | None = None
    environment: str | None = None
    project: str | None = None
    user: str | None = None
    gpu_type: str | None = None
    visible: tuple[str, Collection[str]] | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The use in one period (`start` is absent where all were added up) by the consumers that share `names`."""

    start: int | None
    names: tuple[str, ...]
    used: Consumption


def add(connection: Connection, records: Sequence[UsageRecord]) -> None:
    """Add to the records of the hours."""
    sums: dict[tuple[int, Consumer], Consumption] = {}
    for record in records:
        key = record.start, record.consumer
        sums[key] = sums.get(key, Consumption()) + record.used
    values = [
        {"start": start, "seconds": HOUR, **_values(consumer, _WHO), **_values(used, _AMOUNTS)}
        for (start, consumer), used in sums.items()
    ]
    if values:
        connection.execute(_adding(connection), values)


def _values(of: Consumer | Consumption, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


def _adding(connection: Connection) -> Any:
    """An insert that adds to the row that is there."""
    statement = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(_TABLE)
    new = statement.excluded
    sums: dict[str, Any] = {name: _C[name] + new[name] for name in _AMOUNTS if name != "longest_wait"}
    sums["longest_wait"] = case((new.longest_wait > _C.longest_wait, new.longest_wait), else_=_C.longest_wait)
    return statement.on_conflict_do_update(index_elements=[c.name for c in (*_PERIOD, *_CONSUMER)], set_=sums)


def condense(connection: Connection, now: float) -> None:
    """Merge old hours into days, delete days that are too old, and limit each completed period."""
    hour = int(now) // HOUR * HOUR
    first_hour = (hour - HOURS * HOUR) // DAY * DAY
    old = and_(_C.seconds == HOUR, _C.start < first_hour)
    day = (_C.start - _C.start % literal_column(str(DAY))).label("start")
    days = select(day, literal(DAY).label("seconds"), *_CONSUMER, *_summed()).where(old).group_by(day, *_CONSUMER)
    _merge(connection, days, old)
    connection.execute(delete(_TABLE).where(_C.start < (hour - DAYS * DAY) // DAY * DAY))
    for start, seconds in connection.execute(
        select(*_PERIOD).where(_C.start + _C.seconds <= hour).group_by(*_PERIOD).having(func.count() > MOST)
    ).all():
        _bound(connection, and_(_C.start == start, _C.seconds == seconds))


def _bound(connection: Connection, period: ColumnElement[bool]) -> None:
    """Merge the smallest consumers of a period into one without a name for each environment."""
    order = select(*_CONSUMER).where(period).order_by(_C.held.desc(), *_CONSUMER)
    small = order.offset(MOST - 2).subquery()
    rest = and_(period, tuple_(*_CONSUMER).in_(select(small)))
    nobody = (_C.environment, *(literal("").label(c.name) for c in _CONSUMER[1:]))
    _merge(connection, select(*_PERIOD, *nobody, *_summed()).where(rest).group_by(*_PERIOD, _C.environment), rest)


def _merge(connection: Connection, sums: Select[Any], old: ColumnElement[bool]) -> None:
    """Replace rows by their sums."""
    values = [dict(row) for row in connection.execute(sums).mappings()]
    if values:
        connection.execute(delete(_TABLE).where(old))
        connection.execute(_adding(connection), values)


def _summed() -> list[ColumnElement[Any]]:
    return [(func.max if name == "longest_wait" else func.sum)(_C[name]).label(name) for name in _AMOUNTS]


def set_until(connection: Connection, until: float) -> None:
    """Store the instant until which use is recorded."""
    connection.execute(delete(tables.accounted))
    connection.execute(insert(tables.accounted), {"only": 1, "until": until})


def read_until(connection: Connection) -> float:
    return connection.scalar(select(tables.accounted.c.until)) or 0.0


def read(connection: Connection, wanted: WantedUsage) -> list[UsageSum]:
    """The earliest periods first."""
    given = (
        (_C.environment, wanted.environment),
        (_C.project, wanted.project),
        (_C.user, wanted.user),
        (_C.gpu_type, wanted.gpu_type),
    )
    conditions = [_C.start >= int(wanted.since), _C.start < wanted.until]
    conditions += [column == value for column, value in given if value is not None]
    if wanted.visible is not None:
        user, projects = wanted.visible
        conditions.append(or_(_C.user == user, _C.project.in_(sorted(projects))))
    groups: list[ColumnElement[Any]] = [_C[name] for name in wanted.by]
    if wanted.every is not None:
        length, first = (literal_column(str(each), Integer) for each in wanted.every)
        groups.insert(0, (_C.start - (_C.start - first) % length).label("period"))
    query = select(*groups, *_summed()).where(*conditions).group_by(*groups).order_by(*groups).limit(wanted.limit)
    return [
        UsageSum(
            start=None if wanted.every is None else row["period"],
            names=tuple(row[name] for name in wanted.by),
            used=Consumption(**{name: row[name] or 0 for name in _AMOUNTS}),
        )
        for row in connection.execute(query).mappings()
    ]
