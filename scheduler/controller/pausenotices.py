"""Before a guarantee rises, the owners of running jobs in its way are warned: the job will be paused, for which
project, until when. Shortly before, the jobs themselves are asked to save their state.

The notice is part of the job's reason, so it is durable, published as an event and shown on every screen. What must
hold: a job is asked once for each rise; the engine remembers for which one, so that it may be told again after a
restart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from scheduler.controller.lifecycle import AskToSave
from scheduler.controller.sentences import where
from scheduler.model import AttemptKey, Job, JobId, JobState, WorkloadId, time_of_day
from scheduler.policy import WARNED, Pause

ASKED = 300.0
"""How many seconds before it is likely to be paused a job is asked to save its state; earlier if its grace period is
longer."""

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


_WARNING = re.compile(r"\b(?:Will|May) be paused at .*")


def warning_of(reason: str) -> str:
    """What the reason of a running job says of a pause; empty where it is not expected to pause."""
    found = _WARNING.search(reason)
    return found[0] if found else ""


Tell = Callable[[Job, str, AskToSave | None], None]
"""Sets the notice of a running job (an empty one withdraws it), and asks the job to save its state."""


class PauseNotices:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._told: dict[WorkloadId, Pause] | None = None
        self._asked: dict[AttemptKey, float] = {}

    def look(self, pauses: Mapping[WorkloadId, Pause], holding: Mapping[JobId, Job], now: float) -> float | None:
        """Update the notices of those that hold GPUs, where they have changed since the last call; on the first call of
        all. Ask those to save their state whose pause is near. Returns when the next of them must be asked."""
        soon = {id: pause for id, pause in pauses.items() if now < pause.at <= now + WARNED}
        told = self._told
        self._told, asked, times = {}, self._asked, list[float]()
        self._asked = {}
        for id in holding.keys() if told is None else (*soon, *(told.keys() - soon.keys())):
            job, pause = holding.get(JobId(id)), soon.get(id)
            if job is None or job.state is not JobState.RUNNING:
                continue
            before = None if told is None else told.get(id)
            if pause is not None and before is not None and _alike(before, pause):
                pause = before
            if pause is None:
                self._tell(job, "", None)
                continue
            self._told[id] = pause
            ask_at = pause.at - max(ASKED, job.program.grace)
            if now < ask_at:
                times.append(ask_at)
                self._tell(job, in_words(pause, now), None)
                continue
            key = AttemptKey((job.id, len(job.attempts)))
            request = None if asked.get(key) == pause.at else AskToSave(*key, pause.at)
            self._asked[key] = pause.at
            self._tell(job, f"{in_words(pause, now)} It was asked to save its state.", request)
        return min(times, default=None)


def _alike(one: Pause, other: Pause) -> bool:
    if (one.at, one.project, one.certain) != (other.at, other.project, other.certain):
        return False
    if one.until is None or other.until is None:
        return one.until is other.until
    return abs(one.until - other.until) <= STEADY
