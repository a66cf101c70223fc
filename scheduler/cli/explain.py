"""`jupyter runai explain JOB`: why it is in its state, who holds what it waits for, and when it will start."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from scheduler.cli.connect import connect
from scheduler.cli.text import STATE_STYLES, Screen, amount, clean, clock, gpus
from scheduler.model import duration

if TYPE_CHECKING:
    from scheduler.schema import Explanation, Holder

_SOURCES = {
    "declared": "as declared",
    "learned": "like similar earlier jobs",
    "limit": "at the most",
}


def run(options: argparse.Namespace) -> int:
    with connect() as client:
        found = client.explain(options.job)
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
        return 0
    show(Screen(), found, time.time())
    return 0


def show(screen: Screen, found: Explanation, now: float) -> None:
    state = screen.style(found.state.value, STATE_STYLES.get(found.state.value))
    screen.line(f"{screen.style(clean(found.name), 'strong')}  {found.id}  {state}")
    for label, value in _facts(found, now):
        screen.line(f"  {label:<8}  {clean(value)}")
    if found.holders:
        screen.line()
        screen.heading("Who holds what it waits for")
        screen.table(["PROJECT", "JOB", "USER", "HOLDS", "UNTIL"], _rows(found.holders, now), indent=2)
    if found.would_help:
        screen.line()
        screen.heading("What would help" if len(found.would_help) == 1 else "What would help, any of these")
        for sentence in found.would_help:
            screen.line(f"  - {clean(sentence)}")


def _facts(found: Explanation, now: float) -> Iterable[tuple[str, str]]:
    if found.reason:
        yield "why", found.reason
    if found.notice:
        yield "notice", _resumes(found, now)
    if found.position is not None:
        yield "in line", f"number {found.position} of {found.waiting} in project {found.project}"
    if found.estimate:
        yield "start", f"{_start(found, now)} {found.estimate}"
    if found.expected_runtime is not None and not found.state.final:
        source = _SOURCES[found.runtime_source or "limit"]
        yield "runs", f"{duration(found.expected_runtime)}, {source}{_sure(found)}"
    elif found.similar_runs:
        yield "runs", _sure(found).removeprefix("; ")
    if found.recent_use:
        yield "use", found.recent_use
    if found.size:
        yield "size", found.size
    if found.speed:
        yield "speed", found.speed


def _resumes(found: Explanation, now: float) -> str:
    """`Paused for about 20 min for a short job of ben; resumes at about 14:10.`"""
    at = found.estimated_start
    if at is None:
        return found.notice
    again = f"about {clock(at, now)}" if at > now else "any moment"
    return f"{found.notice.removesuffix('.')}; resumes at {again}."


def _start(found: Explanation, now: float) -> str:
    at = found.estimated_start
    if at is None:
        return f"Not before {clock(found.not_before, now)}." if found.not_before else "Not known."
    if at <= now:
        return "At any moment."
    return f"In about {duration(at - now)}, at {clock(at, now)}{_between(found, now)}."


def _between(found: Explanation, now: float) -> str:
    if found.earliest_start is None or found.latest_start is None:
        return ""
    earliest, latest = (clock(max(now, each), now) for each in (found.earliest_start, found.latest_start))
    return "" if earliest == latest else f", likely between {earliest} and {latest}"


def _sure(found: Explanation) -> str:
    """`; 8 in 10 of 40 similar jobs ran 10 min to 2 h`."""
    if found.shortest_runtime is None or found.longest_runtime is None:
        return ""
    span = f"{duration(found.shortest_runtime)} to {duration(found.longest_runtime)}"
    return f"; 8 in 10 of {found.similar_runs} similar jobs ran {span}"


def _rows(holders: Iterable[Holder], now: float) -> Iterable[tuple[str, str, str, str, str]]:
    """A line for each project, and below it one for each of its visible jobs."""
    for holder in holders:
        over = f" ({amount(holder.over_quota)} over quota)" if holder.over_quota else ""
        yield holder.project or "(notebooks)", "", "", f"{gpus(holder.gpus)}{over}", ""
        for job in holder.jobs:
            end = job.expected_end
            until = "" if end is None else "any moment" if end <= now else f"about {clock(end, now)}"
            yield "", job.name, job.user, gpus(job.gpus), until
