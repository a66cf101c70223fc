"""Jobs on the command line: `list`, `outputs`, `cancel`, `pause`, `resume`, `priority`, `delete`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.cli.connect import connect
from scheduler.cli.logs import write
from scheduler.cli.text import STATE_STYLES, Screen, ago, amount, clean, took
from scheduler.client.arrays import is_array, jobs_of
from scheduler.errors import Invalid, RunaiError
from scheduler.model import JobKey, JobState, duration

if TYPE_CHECKING:
    from scheduler.client import Client
    from scheduler.schema import JobView


PAGE = 500
"""The most jobs in one answer."""

# -- list ---------------------------------------------------------------------------------------------------


def show_list(options: argparse.Namespace) -> int:
    with connect() as client:
        found, more = _first(client, options)
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
        return 0
    screen = Screen()
    if not found:
        asked = options.state or options.project or options.array or options.mine or options.find
        screen.line("No jobs match." if asked else "No jobs.")
        return 0
    table(screen, found, time.time())
    if more:
        which = f"The first {len(found)}" if options.sort or options.ascending else f"The {len(found)} newest"
        screen.line(screen.style(f"{which}; --limit shows more.", "quiet"))
    return 0


def _first(client: Client, options: argparse.Namespace) -> tuple[list[JobView], bool]:
    """The first jobs that match, page by page, and whether there are more."""
    states = [JobState(state) for state in options.state] if options.state else None
    found: list[JobView] = []
    after = None
    while True:
        page = client.jobs(
            state=states,
            project=options.project,
            array=options.array,
            mine=options.mine,
            find=options.find,
            limit=min(PAGE, options.limit - len(found)),
            after=after,
            sort=JobKey(options.sort) if options.sort else None,
            order="asc" if options.ascending else None,
        )
        found += page.jobs
        after = page.next
        if after is None or len(found) >= options.limit:
            return found, after is not None


def table(screen: Screen, jobs: list[JobView], now: float) -> None:
    screen.table(
        ["JOB", "NAME", "PROJECT", "USER", "STATE", "GPUS", "SUBMITTED", "RAN", "REASON"],
        [
            (
                job.id,
                job.name,
                job.project,
                job.user,
                job.state.value,
                amount(job.total_gpus),
                ago(job.submitted, now),
                took(job.ran(now)),
                "" if job.state.value in ("running", "succeeded") else why(job, now),
            )
            for job in jobs
        ],
        right=["GPUS"],
        styles={"STATE": STATE_STYLES},
    )


def waiting_since(job: JobView) -> float:
    """The time since which a queued job has waited: the end of its latest attempt, if it has run before."""
    return (job.attempts[-1].ended if job.attempts else None) or job.submitted


def _range(job: JobView, now: float) -> str:
    """` (10 min to 1 h)`, where the start is that uncertain."""
    if job.earliest_start is None or job.latest_start is None:
        return ""
    earliest, latest = (duration(max(0.0, at - now)) for at in (job.earliest_start, job.latest_start))
    return "" if earliest == latest else f" ({earliest} to {latest})"


def why(job: JobView, now: float) -> str:
    """The reason of a state, and for a waiting job its position and estimated start."""
    told = job.notice if job.state.value == "queued" else ""
    reason = told or job.reason
    words = [reason.rstrip(".")] if reason else []
    if job.position:
        words.append(f"number {job.position} in its queue")
    if job.estimated_start is not None and job.estimated_start > now:
        words.append(
            f"{'resumes' if told else 'starts'} in about {duration(job.estimated_start - now)}{_range(job, now)}"
        )
    return "; ".join(words)


# -- logs and outputs ---------------------------------------------------------------------------------------


def follow(client: Client, job_id: str) -> JobView:
    """Show a job's output until it has ended; returns the ended job."""
    for piece in client.logs(job_id):
        write(piece)
    return client.wait(job_id)


def outputs(options: argparse.Namespace) -> int:
    with connect() as client:
        job = client.job(options.job).id
        if options.to:
            bring(client, job, Path(options.to))
            return 0
        found = client.outputs(job)
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
        return 0
    screen = Screen()
    if not found:
        screen.line("The job wrote no files to $RUNAI_OUTPUT_DIR.")
        return 0
    from scheduler.files.bundle import in_words

    now = time.time()
    screen.table(
        ["FILE", "SIZE", "WRITTEN"],
        [(file.path, in_words(file.size), ago(file.modified, now)) for file in found],
        right=["SIZE"],
    )
    return 0


def bring(client: Client, job_id: str, folder: Path) -> None:
    """Write a job's output files below `folder`, each one atomically."""
    files = client.outputs(job_id)
    for file in files:
        target = Path(os.path.normpath(folder / file.path))
        if not target.is_relative_to(os.path.normpath(folder)):
            raise Invalid(f"The job's output {file.path!r} is outside {folder}; it is not written.")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            client.download(job_id, file.path, target)
        except OSError as error:
            raise Invalid(f"{target} cannot be written ({error.strerror}).") from error
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    print(
        f"{count} copied to {folder}." if files else "The job wrote no files to $RUNAI_OUTPUT_DIR.",
        file=sys.stderr,
    )


# -- cancel, pause, resume, priority, delete --------------------------------------------------------------------------


def cancel(options: argparse.Namespace) -> int:
    return _each(options.jobs, "cancel")


def pause(options: argparse.Namespace) -> int:
    return _each(options.jobs, "pause")


def resume(options: argparse.Namespace) -> int:
    return _each(options.jobs, "resume")


def priority(options: argparse.Namespace) -> int:
    return _each(options.jobs, "priority", options.priority)


def delete(options: argparse.Namespace) -> int:
    return _each(options.jobs, "delete")


def _members(client: Client, names: list[str], verb: str) -> Iterator[str]:
    """Job ids; an array is replaced by its unfinished jobs, or, for `delete`, by its finished ones."""
    for name in names:
        if is_array(name):
            yield from (job.id for job in jobs_of(client, name) if job.state.final == (verb == "delete"))
        else:
            yield name


def _now(job: JobView, verb: str) -> str:
    return f"has priority {job.priority}" if verb == "priority" else f"is {job.state.value}"


def _each(jobs: list[str], verb: str, priority: int = 0) -> int:
    """Apply the verb to every job, also after an error; returns status 1 if there was one."""
    status = 0
    with connect() as client:
        acts: dict[str, Callable[[str], JobView | None]] = {
            "cancel": client.cancel,
            "pause": client.pause,
            "resume": client.resume,
            "priority": partial(client.set_priority, priority=priority),
            "delete": client.delete,
        }
        for job_id in _members(client, jobs, verb):
            try:
                job = acts[verb](job_id)
            except RunaiError as error:
                print(error.sentence, file=sys.stderr)
                status = 1
            else:
                print(f"{job_id} is deleted" if job is None else f"{job.id} {clean(job.name)} {_now(job, verb)}")
    return status
