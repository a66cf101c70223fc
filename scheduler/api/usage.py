"""The use of the pool over any period: `/usage`, and the same as a table for spreadsheets: `/usage.csv`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.errors import Invalid
from scheduler.model import NOTHING, Consumption, Environment
from scheduler.schema import Dimension, Every, UsageReport, UsageRow
from scheduler.store import WantedUsage
from scheduler.store.accounting import DAY, HOUR, HOURS

CSV = "text/csv"

MOST = 20_000
"""The most rows that are read for an answer."""

USUAL = 30 * DAY
LAST = 253_402_300_800
"""The year 10000, in which dates end."""

PERIODS: dict[Every, tuple[int, int]] = {
    "hour": (HOUR, 0),
    "day": (DAY, 0),
    "week": (7 * DAY, 4 * DAY),  # the epoch was a Thursday
    "month": (DAY, 0),
}
"""The length of each kind of period, and the start of one of them."""


class UsageQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    since: float | None = Field(None, ge=0, lt=LAST, description="default: 30 days before `until`")
    until: float | None = Field(None, ge=0, lt=LAST, description="default: now")
    by: list[Dimension] = Field(default_factory=list, description="group by this dimension; may be repeated")
    every: Every | None = Field(None, description="one row for each period, in UTC; absent: one for the whole span")
    environment: Environment | None = None
    project: str | None = None
    user: str | None = None
    gpu_type: str | None = None


class UsageBase(ApiHandler):
    async def report(self) -> UsageReport:
        """The requested use, as far as the caller may see it: their own, and that of their projects."""
        query, now = self.query(UsageQuery), self.api.clock()
        until = now if query.until is None else query.until
        since = max(0.0, until - USUAL) if query.since is None else query.since
        if since >= until:
            raise Invalid("since: the span ends before it begins; give a `since` before `until`.", field="since")
        whole = HOUR if since >= now - HOURS * HOUR else DAY
        since = since // whole * whole
        by = list(dict.fromkeys(query.by))
        access = self.access
        wanted = WantedUsage(
            since=since,
            until=until,
            by=by,
            every=None if query.every is None else PERIODS[query.every],
            environment=query.environment,
            project=query.project,
            user=query.user,
            gpu_type=query.gpu_type,
            visible=None if access.caller.admin else (access.caller.name, access.seen_projects),
            limit=MOST + 1,
        )
        found = await self.api.controller.used(wanted)
        if len(found) > MOST:
            raise Invalid(
                f"The answer would have more than {MOST:,} rows; ask for a shorter span, longer periods, or fewer "
                "groups.",
                field="by",
            )
        sums = [((_start(each.start, query.every), *each.names), each.used) for each in found]
        return UsageReport(since=since, until=until, by=by, every=query.every, rows=_rows(sums, by))


class UsageHandler(UsageBase):
    @endpoint(
        "What the caller and their projects used in a span of time; for an administrator, what everybody used",
        Scope.READ,
        query=UsageQuery,
        answer=UsageReport,
    )
    async def get(self) -> None:
        self.answer(await self.report())


class UsageTableHandler(UsageBase):
    @endpoint("The usage report as CSV", Scope.READ, query=UsageQuery, media=CSV)
    async def get(self) -> None:
        report = await self.report()
        columns = [name for name in UsageRow.model_fields if name not in _GROUPS or name in report.by]
        if report.every is None:
            columns.remove("start")
        text = io.StringIO()
        table = csv.writer(text)
        table.writerow(columns)
        for row in report.rows:
            table.writerow([_cell(name, getattr(row, name)) for name in columns])
        self.set_header("Content-Type", f"{CSV}; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="usage.csv"')
        self.finish(text.getvalue())


_GROUPS = ("environment", "project", "user", "gpu_type")


def _cell(name: str, value: Any) -> Any:
    """A value that a spreadsheet does not interpret as a formula."""
    if name == "start":
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M")
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _start(start: int | None, every: Every | None) -> int | None:
    if start is None or every != "month":
        return start
    return int(datetime.fromtimestamp(start, UTC).replace(day=1).timestamp())


def _rows(sums: Iterable[tuple[tuple[Any, ...], Consumption]], by: list[Dimension]) -> list[UsageRow]:
    """The rows, with those of one month added up. A later correction may leave a period below zero."""
    added: dict[tuple[Any, ...], Consumption] = {}
    for key, used in sums:
        added[key] = added.get(key, NOTHING) + used
    return [
        UsageRow(
            start=start,
            **dict(zip(by, names, strict=True)),
            gpu_hours=max(0.0, used.held / HOUR),
            measured_gpu_hours=used.measured / HOUR,
            idle_gpu_hours=used.idle / HOUR,
            starts=used.starts,
            mean_wait=used.wait / used.starts if used.starts else None,
            longest_wait=used.longest_wait,
            reclaims=used.reclaims,
            lost_gpu_hours=used.lost / HOUR,
        )
        for (start, *names), used in added.items()
    ]
