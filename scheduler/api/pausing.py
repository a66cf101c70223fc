"""What is told of a job that is paused for another one of its project, in the order `served`: for whose, and how long.

It follows from what is durable (why the latest attempt was stopped) and from the latest estimate, so a restart changes
nothing of it. It is told for as long as the other job has not ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.controller.runtimes import Source
from scheduler.model import Ending, Job, JobId, JobState, duration
from scheduler.policy.service import whom_paused_for

if TYPE_CHECKING:
    from scheduler.api.access import Access
    from scheduler.controller.book import Book
    from scheduler.policy import Decision

MINUTE = 60.0


def newcomer(job: Job, book: Book) -> Job | None:
    """The job that this one is paused for."""
    attempt = job.attempt
    if attempt is None or attempt.ending is not Ending.PREEMPTED:
        return None
    if job.state not in (JobState.STOPPING, JobState.QUEUED):
        return None
    id = whom_paused_for(attempt.reason)
    return None if id is None else book.jobs.get(JobId(id))


def notice(job: Job, expected: Decision | None, book: Book, access: Access) -> str:
    """`Paused for about 20 min for a short job of ben.`; empty where the job is not paused for another.

    When it resumes is its estimated start, which is said in the reader's time zone where it is shown.
    """
    other = newcomer(job, book)
    if other is None:
        return ""
    short = "short " if _is_short(other, job, book) else ""
    whose = f"of {other.user}" if access.sees_job(other) else f"of project {other.request.project}"
    who = f"a {short}job {whose}"
    if job.state is JobState.STOPPING:
        return f"Saving its state to pause for {who}."
    stopped, again = job.attempts[-1].stopping, expected.estimated_start if expected else None
    if stopped is None or again is None:
        return f"Paused for {who}. The end of the pause is unknown."
    minutes = max(1, round((again - stopped) / MINUTE))
    return f"Paused for about {duration(minutes * MINUTE)} for {who}."


def _is_short(other: Job, job: Job, book: Book) -> bool:
    """Whether it is expected to run for less time than `job` has run."""
    estimate = book.run_times.estimate(other)
    if estimate is None or estimate.source is Source.LIMIT:
        return False
    spans = [(a.stopping or a.ended or 0.0) - a.started for a in job.attempts if a.started is not None]
    return estimate.seconds < sum(spans)
