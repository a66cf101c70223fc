"""Whether and when a job is retried after its attempt has ended.

Pure. It depends on the job's attempts alone, so a restart does not change it.
"""

from __future__ import annotations

from scheduler.model import Ending, Fault, Job

LOSSES = 5
"""The number of consecutive attempts that may be lost while running, through no fault of the job, before it fails."""

FIRST_PAUSE = 10.0
"""Seconds between a job's second failure (or failure to start) and its next attempt; they double with each further
failure. The first retry comes at once."""

LONGEST_PAUSE = 600.0


def is_tried_again(job: Job) -> bool:
    """Whether another attempt is due after the latest."""
    match job.attempts[-1].ending:
        case Ending.FAILED:
            return _count(job, Ending.FAILED) <= job.program.retries
        case Ending.LOST:
            # An attempt that could not be started (the disk is full, say) does not count. Nor does one that is known to
            # have failed through another's fault.
            recent = job.attempts[-LOSSES:]
            lost = (a.ending is Ending.LOST and bool(a.started) and a.fault is None for a in recent)
            return sum(lost) < LOSSES
        case ending:
            return ending in (Ending.PREEMPTED, Ending.STOPPED, Ending.RESIZED, Ending.MOVED)


def again_at(job: Job) -> float | None:
    """When a queued job that has failed, or could not be started, more than once may be retried; `None`: at any
    time."""
    attempt = job.attempt
    if attempt is None or attempt.ended is None:
        return None
    failures = _count(job, Ending.FAILED) if attempt.ending is Ending.FAILED else _not_started(job)
    if failures < 2:
        return None
    return attempt.ended + min(LONGEST_PAUSE, FIRST_PAUSE * (1 << (failures - 2)))


def _not_started(job: Job) -> int:
    """How many consecutive latest attempts could not be started."""
    count = 0
    for attempt in reversed(job.attempts):
        if attempt.ending is not Ending.LOST or attempt.started or attempt.fault is Fault.PLACE:
            break  # on other nodes it is retried at once
        count += 1
    return count


def why_again(job: Job) -> str:
    attempt = job.attempts[-1]
    match attempt.ending:
        case Ending.FAILED:
            tries = job.program.retries + 1
            return f"Retrying (attempt {_count(job, Ending.FAILED) + 1} of {tries}): {attempt.reason}"
        case Ending.LOST if attempt.fault is Fault.PLACE:
            nodes = " and ".join(sorted({worker.node for worker in attempt.placement} & _avoided(job)))
            return f"Queued again, avoiding {nodes} for a while: {attempt.reason}"
        case Ending.LOST:
            return f"Queued again, not counted as a failure: {attempt.reason}"
        case Ending.STOPPED:
            return "Resumed; waiting for its turn."
        case Ending.RESIZED | Ending.MOVED if not job.nomination:
            return "Waiting for its turn."
        case _:
            return attempt.reason


def _avoided(job: Job) -> set[str]:
    return {avoided.node for avoided in job.avoids}


def _count(job: Job, ending: Ending) -> int:
    return sum(attempt.ending is ending for attempt in job.attempts)
