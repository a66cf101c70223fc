"""Notices to the owners of running jobs before a guarantee rises: the job will be paused, for which project, until
when.

The notice is part of the job's reason, so it is durable, published as an event and shown on every screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.controller.sentences import where
from scheduler.model import Job, JobId, JobState, WorkloadId, time_of_day
from scheduler.policy import WARNED, Pause

STEADY = 900.0
"""A notice is renewed when the expected end of the pause has changed by this many seconds."""


def running(job: Job, notice: str = "") -> str:
    """The reason of a running job, with its notice."""
    return " ".join(filter(None, [f"Runs on {where(job.placement)}.", notice]))


def notice_of(job: Job) -> str:
    """The notice in a job's reason."""
    return job.reason.removeprefix(running(job)).strip() if job.state is JobState.RUNNING else ""


def in_words(pause: Pause, now: float) -> str:
    at = time_of_day(pause.at, pause.timezone, now)
    again = "" if pause.until is None else time_of_day(pause.until, pause.timezone, now)
    if pause.certain:
        resumes = f"; resumes at about {again}" if again else ""
        return f"Will be paused at {at} for project {pause.project}{resumes}."
    resumes = f" It would resume at about {again}." if again else ""
    return f"May be paused at {at}, when the guarantee of project {pause.project} rises.{resumes}"


class PauseNotices:
    """`tell` sets the notice of a running job; an empty one withdraws it."""

    def __init__(self, tell: Callable[[Job, str], None]) -> None:
        self._tell = tell
        self._told: dict[WorkloadId, Pause] | None = None

    def look(self, pauses: Mapping[WorkloadId, Pause], holding: Mapping[JobId, Job], now: float) -> None:
        """Update the notices of those that hold GPUs, where they have changed since the last call; on the first call of
        all."""
        soon = {id: pause for id, pause in pauses.items() if now < pause.at <= now + WARNED}
        told = self._told
        self._told = {}
        for id in holding.keys() if told is None else (*soon, *(told.keys() - soon.keys())):
            job, pause = holding.get(JobId(id)), soon.get(id)
            if job is None or job.state is not JobState.RUNNING:
                continue
            before = None if told is None else told.get(id)
            if pause is not None and before is not None and _alike(before, pause):
                pause = before
            if pause is not None:
                self._told[id] = pause
            self._tell(job, in_words(pause, now) if pause else "")


def _alike(one: Pause, other: Pause) -> bool:
    if (one.at, one.project, one.certain) != (other.at, other.project, other.certain):
        return False
    if one.until is None or other.until is None:
        return one.until is other.until
    return abs(one.until - other.until) <= STEADY
