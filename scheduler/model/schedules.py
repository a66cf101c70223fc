"""Schedules: submissions that the scheduler repeats at the times of a cron expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.names import JobId, ScheduleId, UserName
from scheduler.model.requested import Container


@dataclass(frozen=True, slots=True)
class Schedule:
    """A user's submission and the times at which it is submitted: those of `cron`, on a clock in `timezone`.

    `submission` is as the user sent it, so that each run gets the defaults that apply then; its files are in `blobs`,
    which are kept as long as the schedule. `due` is the next of its times (`None`: there is none, or it is paused) and
    `paused` when it was paused, in seconds since the epoch. `notice` says why the scheduler paused it, or why the last
    run was skipped or has to wait.
    """

    id: ScheduleId
    name: str
    user: UserName
    cron: str
    timezone: str
    submission: Mapping[str, Any]
    created: float
    blobs: tuple[str, ...] = ()
    container: Container = field(default_factory=Container)
    due: float | None = None
    paused: float | None = None
    notice: str = ""
    last_job: JobId | None = None

    @property
    def active(self) -> bool:
        return self.paused is None
