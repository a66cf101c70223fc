"""Schedules from the notebook: a cell or a file that the pool runs at the times of a cron expression."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from scheduler.errors import Misused, RunaiError

if TYPE_CHECKING:
    from scheduler.client import Client
    from scheduler.schema import JobSubmit, ScheduleView


def check(when: Mapping[str, Any], given: Mapping[str, Any], array: object) -> None:
    """Raises `Misused` where what was asked for cannot be scheduled. `when` has the options `schedule` and `timezone`,
    `given` those of the job, and `array` its array."""
    if not when.get("schedule"):
        if when.get("timezone"):
            raise Misused("timezone needs a schedule; say when the job is to run, too.", field="timezone")
    elif array is not None:
        many = next(name for name in ("sweep", "array") if name in given)
        raise Misused(f"{many}: a schedule submits one job at a time; leave it out.", field=many)


def put(client: Client, when: Mapping[str, Any], sent: JobSubmit) -> ScheduleView:
    """Add the schedule. If the same cell, or the same program with the same name, has one, that one is changed instead,
    so that running a notebook again does not schedule its cells twice."""
    from scheduler.schema import ScheduleChange, ScheduleSubmit

    before = next((schedule for schedule in client.schedules() if _is_of(schedule, sent)), None)
    times = {"name": sent.name, "cron": when["schedule"], "timezone": when.get("timezone") or "UTC", "active": True}
    try:
        if before is None:
            return client.schedule_add(ScheduleSubmit(**times, job=sent))
        return client.schedule_change(before.id, ScheduleChange(**times, job=sent))
    except RunaiError as error:
        if error.field == "cron":
            error.field = "schedule"
            error.sentence = error.sentence.replace("cron:", "schedule:", 1)
        raise


def in_words(schedule: ScheduleView) -> str:
    if schedule.next_run is None:
        return f"{schedule.name} is scheduled in project {schedule.project}, and paused."
    at = datetime.fromtimestamp(schedule.next_run, ZoneInfo(schedule.timezone))
    return (
        f"{schedule.name} runs next on {at:%a %Y-%m-%d %H:%M} ({schedule.timezone}), in project {schedule.project}. "
        "The panel lists your schedules."
    )


def _is_of(schedule: ScheduleView, sent: JobSubmit) -> bool:
    if sent.cell is not None:
        return schedule.cell == sent.cell
    return (schedule.name, schedule.kind, schedule.command) == (sent.name, sent.kind, sent.command)
