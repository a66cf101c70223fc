"""Schedules: submissions that the scheduler repeats. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from scheduler.model import JobKind
from scheduler.schema.jobs import JobView
from scheduler.schema.submission import JobSubmit, NotebookCellSubmit
from scheduler.schema.wire import Name, Wire

Cron = Annotated[str, StringConstraints(max_length=200)]
TimeZone = Annotated[str, StringConstraints(max_length=100)]

_CRON = "minute, hour, day of the month, month and day of the week, as in Debian's cron: `0 2 * * *` is 02:00 each day"


class ScheduleSubmit(Wire):
    """The body of `POST /schedules`. Each run is submitted as if its owner sent `job` then."""

    name: Name | None = Field(None, description="name of the schedule, and of its jobs unless `job` names them")
    cron: Cron = Field(description=_CRON)
    timezone: TimeZone = Field("UTC", description="the time zone of `cron`, such as Europe/Berlin")
    active: bool = Field(True, description="false: it is paused")
    job: JobSubmit


class ScheduleChange(Wire):
    """The body of `PATCH /schedules/{schedule}`: what is absent stays as it is."""

    name: Name | None = None
    cron: Cron | None = None
    timezone: TimeZone | None = None
    active: bool | None = Field(None, description="false pauses it; times that pass meanwhile are not made up for")
    job: JobSubmit | None = None


class ScheduleView(Wire):
    """A schedule, as only its owner sees it.

    A run is skipped while the last one is unfinished. If the scheduler was down at some of its times, it runs once
    afterwards.
    """

    id: str
    name: str
    cron: str
    timezone: str
    active: bool
    notice: str = Field(description="why the scheduler paused it, or why its last run was skipped or has to wait")
    created: float
    next_run: float | None = Field(description="null: it is paused, or never comes again")
    project: str
    kind: JobKind
    command: list[str]
    cell: NotebookCellSubmit | None = Field(None, description="where it was added from")
    last_job: JobView | None = Field(description="its last run; null: there was none, or it has been deleted")


class ScheduleList(Wire):
    """By name."""

    schedules: list[ScheduleView]
