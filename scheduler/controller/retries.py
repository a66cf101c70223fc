"""Whether a job whose attempt has ended is tried again, and when.

Pure, and it follows from the job's attempts alone, so a restart changes nothing of it.
"""

from __future__ import annotations

from scheduler.model import Ending, Fault, Job

LOSSES = 5
"""So many attempts in a row may be lost while they run, through no fault of the job, before it is given up."""

FIRST_PAUSE = 10.0
"""Seconds between the second time that a job fails, or can't be started, and its next try; each further time doubles
them. The first retry comes at once."""

LONGEST_PAUSE = 600.0


def is_tried_again(job: Job) -> bool:
    """Whether another attempt is due after the latest."""
    match job.attempts[-1].ending:
        case Ending.FAILED:
            return _count(job, Ending.FAILED) <= job.program.retries
        case Ending.LOST:
            # What could not even be started (the disk is full, say) waits for better times.
            # Neither does it count where it is known to be another's fault.
            recent = job.attempts[-LOSSES:]
            lost = (a.ending is Ending.LOST and bool(a.started) and a.fault is None for a in recent)
            return sum(lost) < LOSSES
        case ending:
            return ending in (Ending.PREEMPTED, Ending.STOPPED, Ending.RESIZED, Ending.MOVED)


def again_at(job: Job) -> float | None:
    """When a queued job that has failed, or could not be started, more than once may be tried again; `None`: at any
    time."""
    attempt = job.attempt
    if attempt is None or attempt.ended is None:
        return None
    failures = _count(job, Ending.FAILED) if attempt.ending is Ending.FAILED else _not_started(job)
    if failures < 2:
        return None
    return attempt.ended + min(LONGEST_PAUSE, FIRST_PAUSE * (1 << (failures - 2)))


def _not_started(job: Job) -> int:
    """How many of the latest attempts, one after another, could not be started."""
    count = 0
    for attempt in reversed(job.attempts):
        if attempt.ending is not Ending.LOST or attempt.started or attempt.fault is Fault.PLACE:
            break  # elsewhere it is tried at once
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
