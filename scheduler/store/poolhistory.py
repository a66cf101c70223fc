"""The record of the pool as a whole: by minute for two days, by hour for two weeks, then by day (UTC) for thirteen
months.

What must hold: however long the scheduler runs, there are at most `MOST_ROWS` rows, except for the minutes since it was
last condensed. Condensing keeps the sums. A sum is unknown (`NULL`) where a part of it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, literal, literal_column, select
from sqlalchemy.dialects import postgresql, sqlite

from scheduler.model import PoolUse
from scheduler.store import tables

MINUTE = 60
HOUR = 3600
DAY = 86_400

LEVELS = ((MINUTE, 2 * DAY), (HOUR, 14 * DAY), (DAY, 397 * DAY))
"""The length of the periods of each level, and for how long they are kept at least; in seconds."""

MOST_ROWS = (2 * DAY + HOUR) // MINUTE + (14 * DAY + DAY) // HOUR + 397 + 2

_TABLE = tables.pool_history
_C = _TABLE.c
_AMOUNTS = tuple(each.name for each in fields(PoolUse))


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """The use of the pool in the period that begins at `start`, in seconds since the epoch."""

    start: int
    used: PoolUse


def add(connection: Connection, records: Sequence[PoolRecord]) -> None:
    """Add to the records of the minutes."""
    sums: dict[int, PoolUse] = {}
    for record in records:
        sums[record.start] = sums.get(record.start, PoolUse()) + record.used
    _put(
        connection,
        [
            {"start": start, "seconds": MINUTE, **{name: getattr(used, name) for name in _AMOUNTS}}
            for start, used in sums.items()
        ],
    )


def _put(connection: Connection, values: Sequence[dict[str, Any]]) -> None:
    """Insert rows, or add to those that are there."""
    if not values:
        return
    statement = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(_TABLE)
    new = statement.excluded
    sums: dict[str, Any] = {name: _C[name] + new[name] for name in _AMOUNTS if name != "longest_wait"}
    sums["longest_wait"] = case((new.longest_wait > _C.longest_wait, new.longest_wait), else_=_C.longest_wait)
    connection.execute(statement.on_conflict_do_update(index_elements=["start", "seconds"], set_=sums), values)


def condense(connection: Connection, now: float) -> None:
    """Merge old minutes into hours and old hours into days, and delete days that are too old."""
    for (fine, kept), (coarse, _) in pairwise(LEVELS):
        old = and_(_C.seconds == fine, _C.start < _floor(now - kept, coarse))
        start = _period(coarse).label("start")
        sums = select(start, literal(coarse).label("seconds"), *_summed()).where(old).group_by(start)
        values = [dict(row) for row in connection.execute(sums).mappings()]
        connection.execute(delete(_TABLE).where(old))
        _put(connection, values)
    longest, kept = LEVELS[-1]
    connection.execute(delete(_TABLE).where(_C.start < _floor(now - kept, longest)))


def read(connection: Connection, since: float, until: float, step: int) -> list[PoolRecord]:
    """The sums of the periods of `step` seconds that begin in the span, the earliest first; `step` is a multiple of the
    periods that are kept for it."""
    period = _period(step).label("period")
    within = (_C.start >= _floor(since, step), _C.start < until)
    query = select(period, *_summed()).where(*within).group_by(period).order_by(period)
    return [
        PoolRecord(row["period"], PoolUse(**{name: row[name] for name in _AMOUNTS}))
        for row in connection.execute(query).mappings()
    ]


def _floor(at: float, step: int) -> int:
    return int(at // step) * step


def _period(step: int) -> ColumnElement[Any]:
    return _C.start - _C.start % literal_column(str(step))


def _summed() -> list[ColumnElement[Any]]:
    return [_sum(name).label(name) for name in _AMOUNTS]


def _sum(name: str) -> ColumnElement[Any]:
    if name == "longest_wait":
        return func.max(_C[name])
    if name == "queued":
        return case((func.count() == func.count(_C[name]), func.sum(_C[name])))
    return func.sum(_C[name])
