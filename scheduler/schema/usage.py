"""What the API says of what was used. Units as in `schema.wire`, GPU-hours and lost work are hours."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scheduler.model import Environment
from scheduler.schema.wire import Wire

Dimension = Literal["environment", "project", "user", "gpu_type"]
Every = Literal["hour", "day", "week", "month"]


class UsageRow(Wire):
    """What was used in one period, or in the whole span, by those who have these in common; what it is not grouped by
    is null."""

    start: float | None = Field(description="when the period begins; null: the whole span")
    environment: Environment | None = None
    project: str | None = Field(None, description="empty for sessions")
    user: str | None = Field(None, description="empty for the smallest users of a period with a thousand of them")
    gpu_type: str | None = Field(None, description="empty where it is not known")
    gpu_hours: float = Field(description="GPU-hours allocated")
    measured_gpu_hours: float = Field(description="those of which it was measured how busy the GPUs were …")
    idle_gpu_hours: float = Field(description="… and those of these in which they were idle")
    starts: int = Field(description="attempts and sessions that began")
    mean_wait: float | None = Field(description="for how long they had waited on average; null where none began")
    longest_wait: float
    reclaims: int = Field(description="attempts that were stopped for others")
    lost_gpu_hours: float = Field(description="work that was stopped after the last checkpoint seen")


class UsageReport(Wire):
    """Rows by the start of their period. `since` is the start of the first one."""

    since: float
    until: float
    by: list[Dimension]
    every: Every | None
    rows: list[UsageRow]
