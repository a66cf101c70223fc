"""The requests for schedules, as those of `calls`. A schedule is named by its id or its name."""

from __future__ import annotations

from urllib.parse import quote

from scheduler.client.calls import Call, _json, _nothing, _view
from scheduler.schema import JobView, ScheduleChange, ScheduleList, ScheduleSubmit, ScheduleView


def schedules() -> Call[list[ScheduleView]]:
    """The caller's schedules, by name."""
    return Call("GET", "schedules", lambda response: _view(ScheduleList)(response).schedules)


def schedule_add(schedule: ScheduleSubmit) -> Call[ScheduleView]:
    """Submit a job at the times of a cron expression from now on."""
    return Call("POST", "schedules", _view(ScheduleView), repeatable=False, **_json(schedule))


def schedule_change(schedule: str, change: ScheduleChange) -> Call[ScheduleView]:
    """Pause or resume a schedule, or change its times or its job."""
    return Call("PATCH", _path(schedule), _view(ScheduleView), repeatable=False, **_json(change))


def schedule_remove(schedule: str) -> Call[None]:
    """Remove a schedule; its jobs stay as they are."""
    return Call("DELETE", _path(schedule), _nothing, repeatable=False)


def schedule_run(schedule: str) -> Call[JobView]:
    """Submit the job of a schedule now."""
    return Call("POST", f"{_path(schedule)}/run", _view(JobView), repeatable=False)


def _path(schedule: str) -> str:
    return f"schedules/{quote(schedule, safe='')}"
