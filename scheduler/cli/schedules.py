"""`jupyter runai schedule`: jobs that the scheduler submits at the times of a cron expression."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from scheduler.cli.connect import connect
from scheduler.cli.text import Screen, ago, clean
from scheduler.errors import Misused, RunaiError
from scheduler.submission.arguments import in_words

if TYPE_CHECKING:
    from scheduler.client import Client
    from scheduler.schema import ScheduleView

LINE = "jupyter runai schedule add"


def add(options: argparse.Namespace) -> int:
    try:
        return _add(options)
    except RunaiError as error:
        error.sentence = in_words(error, {**options.typed, "cron": "--cron", "timezone": "--timezone"})
        raise


def _add(options: argparse.Namespace) -> int:
    from scheduler.cli.submit import compose
    from scheduler.client.uploading import upload
    from scheduler.schema import ScheduleSubmit

    composed = compose(options, LINE)
    if composed is None:
        return 0
    sent, array, bundle = composed
    if array is not None:
        raise Misused("A schedule submits one job at a time; leave array and sweep out of the job file.")
    with connect() as client:
        if bundle is not None:
            client.check(sent)
            sent = sent.model_copy(update=upload(client, bundle).fields)
        added = client.schedule_add(ScheduleSubmit(cron=options.cron, timezone=options.timezone, job=sent))
    if options.output:
        from scheduler.cli.formats import emit

        emit(added, options.output)
        return 0
    print(added.id, flush=True)
    print(f"{clean(added.name)} runs next on {_clock(added)}, in project {added.project}.", file=sys.stderr)
    return 0


def show_list(options: argparse.Namespace) -> int:
    with connect() as client:
        found = client.schedules()
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
        return 0
    screen = Screen()
    if not found:
        screen.line(f"No schedules; `{LINE}` adds one.")
        return 0
    now = time.time()
    screen.table(
        ["SCHEDULE", "TIMES", "NEXT RUN", "LAST JOB", "LAST RESULT", "NOTICE"],
        [
            (
                schedule.name,
                f"{schedule.cron} {schedule.timezone}",
                _clock(schedule) if schedule.active else "paused",
                schedule.last_job.id if schedule.last_job else "–",
                _last(schedule, now),
                schedule.notice,
            )
            for schedule in found
        ],
    )
    return 0


def pause(options: argparse.Namespace) -> int:
    return _each(options.schedules, lambda client, name: _set_active(client, name, active=False))


def resume(options: argparse.Namespace) -> int:
    return _each(options.schedules, lambda client, name: _set_active(client, name, active=True))


def remove(options: argparse.Namespace) -> int:
    def act(client: Client, name: str) -> str:
        client.schedule_remove(name)
        return f"{name} is removed; its jobs stay."

    return _each(options.schedules, act)


def run(options: argparse.Namespace) -> int:
    """The ids of the jobs on standard output."""
    return _each(options.schedules, lambda client, name: client.schedule_run(name).id)


def _set_active(client: Client, name: str, *, active: bool) -> str:
    from scheduler.schema import ScheduleChange

    changed = client.schedule_change(name, ScheduleChange(active=active))
    return f"{changed.name} runs next on {_clock(changed)}." if active else f"{changed.name} is paused."


def _each(schedules: list[str], act: Callable[[Client, str], str]) -> int:
    """Do it for every schedule, also after an error; returns status 1 if there was one."""
    status = 0
    with connect() as client:
        for name in schedules:
            try:
                print(clean(act(client, name)))
            except RunaiError as error:
                print(error.sentence, file=sys.stderr)
                status = 1
    return status


def _clock(schedule: ScheduleView) -> str:
    """The next run, on a clock in the schedule's time zone."""
    if schedule.next_run is None:
        return "–"
    return f"{datetime.fromtimestamp(schedule.next_run, ZoneInfo(schedule.timezone)):%a %Y-%m-%d %H:%M}"


def _last(schedule: ScheduleView, now: float) -> str:
    job = schedule.last_job
    return "" if job is None else f"{job.state.value}, {ago(job.ended or job.submitted, now)}"
