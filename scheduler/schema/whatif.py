"""What the record of jobs tells, in the API: how they fare on a changed pool, and the demand to expect."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scheduler.schema.wire import Wire

MOST_GPUS = 10_000
"""The most GPUs that can be added."""

Guarantee = Annotated[float, Field(ge=0, le=1_000_000)]


class WhatIfAsk(Wire):
    """What if the pool had `gpus` more GPUs, and these projects were guaranteed so many."""

    since: float | None = Field(None, ge=0, description="default: 30 days before `until`")
    until: float | None = Field(None, ge=0, description="default: now")
    gpus: int = Field(0, ge=0, le=MOST_GPUS)
    guaranteed: dict[str, Guarantee] = Field(default_factory=dict, max_length=1000)


class OutcomeView(Wire):
    jobs: int
    mean_wait: float
    median_wait: float
    p95_wait: float
    mean_completion: float
    stops: int


class SideView(Wire):
    """How the jobs fare on one pool. `use` is the share of its GPUs that they hold; `never_started` jobs do not fit."""

    gpus: int
    use: float
    total: OutcomeView | None = Field(description="null if no job ends on all sides")
    by_project: dict[str, OutcomeView]
    never_started: int


class WhatIfReport(Wire):
    """The jobs that were submitted in the span, as recorded and simulated on the pool as it is and on the changed one.
    `unfinished` jobs are taken as ended; those that `never_ran`, or whose project or node pool is `gone`, are left
    out."""

    since: float
    until: float
    unfinished: int
    never_ran: int
    gone: int
    recorded: SideView
    unchanged: SideView
    changed: SideView


class ForecastHour(Wire):
    low: float
    median: float
    high: float


class DemandForecast(Wire):
    """The GPUs that jobs hold or wait for, by the hour: the last week (`history`, up to `start`) and the forecast of
    the next one (`hours`, from `start` on) from so many `weeks`. Empty while the record is shorter than a week."""

    capacity: int
    start: float
    history: list[float]
    hours: list[ForecastHour]
    weeks: int
    mean_absolute_error: float | None = Field(
        description="in GPUs, of the forecast of last week from the weeks before; null if there are none"
    )
    within_range: float | None = Field(description="the share of the hours of last week that were in the range")
