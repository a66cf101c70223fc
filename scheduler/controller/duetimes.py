"""When a schedule is due, and what happens then.

Pure. What must hold:
- A schedule that is due runs once, however many of its times have passed since its last run, and its next run is at the
  first of its times after now. Times that pass while it is paused are not made up for.
- It does not run while its last run is unfinished: that time is skipped.
- Its times are those of Debian's cron. A fixed time of day that does not exist, because clocks are set forward, is the
  first one after it that does; one that comes twice is the first of the two. If the minutes or the hours begin with
  `*`, it is due whenever a clock shows one of its times.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from scheduler.errors import Invalid
from scheduler.model import Job, Schedule
from scheduler.pool.windows import check_timezone


def next_time(cron: str, timezone: str, after: float) -> float | None:
    """The first time of a schedule after an instant, in seconds since the epoch; `None` if there is none in the next 50
    years. Raises `Invalid`."""
    check_timezone(timezone, "timezone")
    now = datetime.fromtimestamp(after, ZoneInfo(timezone))
    if len(cron.split()) != 5:
        raise _not_cron(cron, "it does not have five fields")
    try:
        times = CronSim(cron, now)
    except (CronSimError, ValueError) as error:
        raise _not_cron(cron, str(error)) from None
    # In the second pass of an hour that comes twice, it may answer with a time of the first pass.
    return next((at for at in (time.timestamp() for time in times) if at > after), None)


def activated(schedule: Schedule, now: float) -> Schedule:
    """The schedule as it waits for its next time. Raises `Invalid` where it has none."""
    due = next_time(schedule.cron, schedule.timezone, now)
    if due is None:
        raise Invalid(f"cron: {schedule.cron!r} never comes; choose a day that exists.", field="cron")
    return replace(schedule, due=due, paused=None, notice="")


def paused(schedule: Schedule, now: float, notice: str = "") -> Schedule:
    """The schedule once it is paused, by its owner or, for the reason in `notice`, by the scheduler."""
    return schedule if schedule.paused is not None else replace(schedule, due=None, paused=now, notice=notice)


def is_due(schedule: Schedule, now: float) -> bool:
    return schedule.due is not None and schedule.due <= now


def after_run(schedule: Schedule, now: float) -> Schedule:
    """A schedule that is due, once it has been dealt with."""
    return replace(schedule, due=next_time(schedule.cron, schedule.timezone, now), notice="")


def skipped(schedule: Schedule, now: float, why: str) -> Schedule:
    """A schedule whose run is left out."""
    return replace(after_run(schedule, now), notice=f"The run of {_clock(schedule)} was skipped: {why}")


def skip_for(last: Job | None) -> str | None:
    """Why a schedule that is due does not run, if its last run is unfinished."""
    if last is None or last.state.final:
        return None
    return f"the last run, job {last.id}, was still {last.state.value}."


def _clock(schedule: Schedule) -> str:
    assert schedule.due is not None
    return f"{datetime.fromtimestamp(schedule.due, ZoneInfo(schedule.timezone)):%Y-%m-%d %H:%M}"


def _not_cron(cron: str, why: str) -> Invalid:
    return Invalid(
        f"cron: {cron!r} is not a cron expression ({why[:1].lower()}{why[1:]}); write the minute, the hour, the day of "
        "the month, the month and the day of the week, such as '0 2 * * *' for every night at 02:00.",
        field="cron",
    )
