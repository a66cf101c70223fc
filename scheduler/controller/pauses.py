"""When jobs that failed repeatedly may be retried, on a clock that is never set.

What must hold: setting the wall clock neither shortens nor prolongs a pause. After a restart the rest of a pause
follows from the job's attempts, and is never longer than the whole pause. A pause that is lifted is over, also where
the attempt's end has not been recorded yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.controller.retries import again_at
from scheduler.model import AttemptKey, Job, JobId, JobState, WorkloadId

SLIGHT = 1.0
"""A drift of the two clocks below this many seconds is ignored."""


class Pauses:
    """The end of each pause on the monotonic clock, by job and number of attempts."""

    def __init__(self) -> None:
        self._over: dict[AttemptKey, float] = {}
        self._lifted: dict[JobId, int] = {}

    def lift(self, job: JobId, attempt: int, jobs: Mapping[WorkloadId, Job]) -> bool:
        """An attempt that could not be started may succeed now: its job does not pause. `jobs` are the unfinished ones.

        Returns whether the job waits to be retried.
        """
        lifted = {**self._lifted, job: attempt}.items()
        self._lifted = {id: number for id, number in lifted if id in jobs and len(jobs[id].attempts) == number}
        return self._lifted.get(job) == attempt and jobs[job].wanted is None

    def look(self, jobs: Iterable[Job], now: float, steady: float) -> dict[str, float]:
        """When the pausing jobs may be retried, on the wall clock; `now` and `steady` are the times of the wall clock
        and of the monotonic clock."""
        over: dict[AttemptKey, float] = {}
        found: dict[str, float] = {}
        for job in jobs:
            if job.state is not JobState.QUEUED or (told := again_at(job)) is None:
                continue
            if self._lifted.get(job.id) == len(job.attempts):
                continue
            attempt = AttemptKey((job.id, len(job.attempts)))
            left = max(0.0, told - max(now, job.attempts[-1].ended or now))
            end = over[attempt] = self._over.get(attempt, steady + left)
            if end > steady:
                at = now + end - steady
                found[job.id] = told if abs(at - told) < SLIGHT else at
        self._over = over
        return found
