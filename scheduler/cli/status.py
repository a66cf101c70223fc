"""`jupyter runai status`: the pool at a glance, or one job in full."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from scheduler.cli import jobs, projects
from scheduler.cli.connect import connect
from scheduler.cli.text import STATE_STYLES, Screen, ago, amount, clean, gpus, took
from scheduler.model import JobState, duration

if TYPE_CHECKING:
    from scheduler.schema import AttemptView, GpuView, JobGpuUse, JobView, Occupant, PoolView

QUEUE = 20
"""The most waiting jobs that are shown."""


def run(options: argparse.Namespace) -> int:
    return _job(options) if options.job else _pool(options)


# -- the pool -----------------------------------------------------------------------------------------------


def _pool(options: argparse.Namespace) -> int:
    with connect() as client:
        pool = client.pool()
        if options.output:
            from scheduler.cli.formats import emit

            emit(pool, options.output)
            return 0
        shares = client.projects()
        waiting = client.jobs(state=[JobState.QUEUED], limit=QUEUE).jobs
    screen = Screen()
    screen.line(summary(pool))
    screen.line()
    show_nodes(screen, pool)
    screen.line()
    projects.table(screen, shares)
    if waiting:
        screen.line()
        screen.heading("Queue")
        _queue(screen, waiting)
    return 0


def summary(pool: PoolView) -> str:
    """One line: the number of GPUs and how they are used."""
    parts = []
    for name, totals in (("build", pool.build), ("train", pool.train)):
        over = f" ({amount(totals.over_quota)} over quota)" if totals.over_quota else ""
        outside = f", {amount(totals.foreign)} used outside the pool" if totals.foreign else ""
        parts.append(f"{name}: {amount(totals.allocated)} of {amount(totals.gpus)} held{over}{outside}")
    whole = gpus(pool.build.gpus + pool.train.gpus)
    waiting = f"{pool.waiting} job{'' if pool.waiting == 1 else 's'} waiting" if pool.waiting else "nothing waits"
    return " · ".join([f"{whole}{', declared' if pool.declared else ''}", *parts, waiting])


def show_nodes(screen: Screen, pool: PoolView) -> None:
    any_slow = any(gpu.slowness > 1 for node in pool.nodes for gpu in node.gpus)
    rows = []
    for node in pool.nodes:
        for gpu in node.gpus:
            first = gpu is node.gpus[0]
            about = f"{node.environment.value}{'' if node.schedulable else ', drained'}" if first else ""
            rows.append(
                (
                    node.name if first else "",
                    about,
                    gpu.index,
                    (node.gpu_type or "") if first else "",
                    _memory(gpu),
                    "" if gpu.utilisation is None else f"{gpu.utilisation:.0%}{' declared' if gpu.declared else ''}",
                    ", ".join([*map(occupant, gpu.occupants), *_outside(gpu)]) or "free",
                    *([_slower(gpu)] if any_slow else []),
                )
            )
    screen.table(
        ["NODE", "FOR", "GPU", "TYPE", "MEMORY", "BUSY", "HELD BY", *(["SPEED"] if any_slow else [])],
        rows,
        right=["GPU", "BUSY"],
        styles={"HELD BY": {"free": "quiet"}},
    )


def _slower(gpu: GpuView) -> str:
    return f"{gpu.slowness:.1f} × slower than GPUs of its type" if gpu.slowness > 1 else ""


def _outside(gpu: GpuView) -> list[str]:
    """`used outside the pool (0.5 of it)`, if it is, or why the GPU fails."""
    if gpu.failure is not None:
        return [f"out of use: {gpu.failure}"]
    return [f"used outside the pool{_part(gpu.foreign)}"] if gpu.foreign else []


def _part(share: float) -> str:
    return f" ({amount(share)} of it)" if share < 1 else ""


def _memory(gpu: GpuView) -> str:
    if gpu.memory_gib is None:
        return ""
    used = f"{gpu.used_memory_gib:.0f} of " if gpu.used_memory_gib is not None else ""
    return f"{used}{gpu.memory_gib:.0f} GiB"


def occupant(who: Occupant) -> str:
    """`ada's notebook`, `bert-large (vision, ada), over quota`; a hidden owner is `somebody`."""
    part = _part(who.share)
    if who.kind == "session":
        return f"{who.user or 'somebody'}'s notebook{part}"
    if who.name is None:
        return f"a job{f' of {who.project}' if who.project else ''}{part}"
    return f"{who.name} ({who.project}, {who.user}){part}{', over quota' if who.over_quota else ''}"


def _queue(screen: Screen, waiting: Iterable[JobView]) -> None:
    now = time.time()
    screen.table(
        ["JOB", "NAME", "PROJECT", "USER", "GPUS", "WAITING", "WHY"],
        [
            (
                job.id,
                job.name,
                job.project,
                job.user,
                amount(job.total_gpus),
                duration(now - jobs.waiting_since(job)),
                jobs.why(job, now),
            )
            for job in waiting
        ],
        right=["GPUS"],
    )


# -- one job ------------------------------------------------------------------------------------------------


def _job(options: argparse.Namespace) -> int:
    with connect() as client:
        job = client.job(options.job)
        if options.output:
            from scheduler.cli.formats import emit

            emit(job, options.output)
            return 0
        use = client.gpu_use(job.id) if job.gpus and job.attempts else None
    screen = Screen()
    now = time.time()
    state = screen.style(job.state.value, STATE_STYLES.get(job.state.value))
    screen.line(f"{screen.style(clean(job.name), 'strong')}  {job.id}  {state}")
    for label, value in [*_facts(job, now), *_gpu_use(use)]:
        screen.line(f"  {label:<10}  {clean(value)}")
    if job.attempts:
        screen.line()
        screen.table(
            ["ATTEMPT", "STARTED", "RAN", "ON", "ENDED", "EXIT", "REASON"],
            [_attempt(attempt, now) for attempt in job.attempts],
            right=["ATTEMPT"],
        )
    return 0


def _facts(job: JobView, now: float) -> Iterable[tuple[str, str]]:
    yield "project", job.project
    yield "user", job.user
    if job.state.value != "succeeded" and (reason := jobs.why(job, now)):
        yield "why", reason
    workers = "" if job.workers == 1 else f" for each of {job.workers} workers"
    least = "" if job.min_workers == job.workers else f", at least {job.min_workers}"
    held = ", over quota" if job.over_quota else ""
    yield "asks for", f"{gpus(job.gpus)}{workers}{least}{held}"
    kept = "" if job.preemptible else ", never stopped for others"
    yield "priority", f"{job.priority}{kept}"
    yield "submitted", _moment(job.submitted, now)
    if job.started is not None:
        yield "started", _moment(job.started, now)
    if job.ended is not None:
        yield "ended", _moment(job.ended, now)
    if job.exit_code is not None:
        yield "exit code", str(job.exit_code)


def _gpu_use(use: JobGpuUse | None) -> Iterable[tuple[str, str]]:
    """Of the latest attempt, as far as it was measured."""
    points = [point for gpu in use.gpus for point in gpu.points] if use else []
    busy = [point.utilisation for point in points if point.utilisation is not None]
    used = [point.used_memory_gib for point in points if point.used_memory_gib is not None]
    parts = [
        *([f"{sum(busy) / len(busy):.0%} on average"] if busy else []),
        *([f"{amount(round(max(used), 1))} GiB of memory at most"] if used else []),
    ]
    if parts:
        yield "GPU use", ", ".join([*parts, *(["as declared"] if use and use.declared else [])])


def _moment(at: float, now: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S} ({ago(at, now)})"


def _attempt(attempt: AttemptView, now: float) -> tuple[object, ...]:
    places = ", ".join(
        f"{worker.node} GPU {','.join(map(str, worker.gpus))}" if worker.gpus else worker.node
        for worker in attempt.workers
    )
    ran = (attempt.ended or now) - attempt.started if attempt.started is not None else None
    codes = [("?" if code is None else str(code)) for code in attempt.exit_codes]
    return (
        attempt.number,
        "" if attempt.started is None else ago(attempt.started, now),
        took(ran),
        places,
        attempt.ending and attempt.ending.value,
        ", ".join(codes),
        attempt.reason,
    )
