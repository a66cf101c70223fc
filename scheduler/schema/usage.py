"""The API's usage report. Units as in `schema.wire`; GPU-hours and lost work are in hours."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scheduler.model import Environment
from scheduler.schema.wire import Wire

Dimension = Literal["environment", "project", "user", "gpu_type"]
Every = Literal["hour", "day", "week", "month"]


class UsageRow(Wire):
    """The use in one period, or in the whole span, for one value of each dimension that the report is grouped by; the
    other dimensions are null."""

    start: float | None = Field(description="start of the period; null: the whole span")
    environment: Environment | None = None
    project: str | None = Field(None, description="empty for sessions")
    user: str | None = Field(
        None, description="empty for the users who used least, where a period has a thousand users"
    )
    gpu_type: str | None = Field(None, description="empty if it is unknown")
    gpu_hours: float = Field(description="GPU-hours allocated")
    measured_gpu_hours: float = Field(description="GPU-hours in which utilisation was measured …")
    idle_gpu_hours: float = Field(description="… and those of them in which the GPUs were idle")
    starts: int = Field(description="number of attempts and sessions that started")
    mean_wait: float | None = Field(description="average time that they had waited; null if none started")
    longest_wait: float
    reclaims: int = Field(description="number of attempts that were stopped so that others got their GPUs")
    lost_gpu_hours: float = Field(description="GPU-hours between the last known checkpoint and the stop")


class UsageReport(Wire):
    """The rows, ordered by the start of their period. `since` is the start of the first period."""

    since: float
    until: float
    by: list[Dimension]
    every: Every | None
    rows: list[UsageRow]


class PoolPoint(Wire):
    """One period of the pool's history: averages in GPUs and jobs, null where they were not recorded."""

    start: float
    allocated: float | None
    used: float | None = Field(description="allocated GPUs whose utilisation was measured and that were not idle …")
    idle: float | None = Field(description="… and that were idle; null if none was measured")
    queued: float | None = Field(description="jobs in the queue")
    starts: int = Field(description="number of attempts of jobs that started")
    mean_wait: float | None = Field(description="average time that they had waited; null if none started")
    longest_wait: float


class PoolHistory(Wire):
    """The pool over time. A period lasts `step` seconds; periods without a record are left out."""

    since: float
    until: float
    step: int
    points: list[PoolPoint]
