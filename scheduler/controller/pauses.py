"""Until when jobs pause that have failed again and again, by a clock that is never set.

What must hold: setting the wall clock neither shortens nor prolongs a pause. What is left of one after a restart
follows from the job's attempts, and is never more than all of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.controller.retries import again_at
from scheduler.model import AttemptKey, Job, JobState

SLIGHT = 1.0
"""So many seconds that the two clocks drift apart are nobody's who reads them."""


class Pauses:
    """When each pause is over by the monotonic clock, by the job and the number of its attempts."""

    def __init__(self) -> None:
        self._over: dict[AttemptKey, float] = {}

    def look(self, jobs: Iterable[Job], now: float, steady: float) -> dict[str, float]:
        """When the queued jobs that pause may be tried again, by the wall clock; `now` and `steady` are what the two
        clocks say."""
        over: dict[AttemptKey, float] = {}
        found: dict[str, float] = {}
        for job in jobs:
            if job.state is not JobState.QUEUED or (told := again_at(job)) is None:
                continue
            attempt = AttemptKey((job.id, len(job.attempts)))
            left = max(0.0, told - max(now, job.attempts[-1].ended or now))
            end = over[attempt] = self._over.get(attempt, steady + left)
            if end > steady:
                at = now + end - steady
                found[job.id] = told if abs(at - told) < SLIGHT else at
        self._over = over
        return found
