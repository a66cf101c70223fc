"""The sentence of a job in a notebook."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_ext import card
from scheduler.model import JobState
from scheduler.schema import AttemptView, JobView


def attempt(number: int, started: float, ended: float) -> AttemptView:
    return AttemptView(
        number=number, created=started, started=started, ended=ended, workers=[], exit_codes=[], reason="", ending=None
    )


def a_job(state: JobState, reason: str, *attempts: AttemptView) -> JobView:
    view: dict[str, Any] = {
        **{"id": "j-1", "name": "digits", "project": "vision", "user": "ada", "mine": True, "kind": "cell"},
        **{"state": state, "reason": reason, "attempts": attempts, "submitted": 0.0, "outputs": [], "exit_code": None},
        **{"started": attempts[0].started if attempts else None, "ended": 200.0 if state.final else None},
        **{"gpus": 1, "workers": 1, "min_workers": 1, "groups": [], "total_gpus": 1},
        **{"priority": 50, "preemptible": True, "over_quota": False},
    }
    return JobView(**view)


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        (JobState.CANCELLED, "Cancelled.", "cancelled after 1 min 42 s."),
        (JobState.CANCELLED, "Cancelled by grace.", "cancelled after 1 min 42 s, by grace."),
        (JobState.SUCCEEDED, "Succeeded.", "succeeded after 1 min 42 s."),
        (JobState.FAILED, "It was killed by SIGSEGV.", "failed after 1 min 42 s. It was killed by SIGSEGV."),
        (JobState.PAUSED, "Paused; resume it to queue it again.", "paused. Resume it to queue it again."),
    ],
)
def test_the_state_is_said_once_with_the_time_of_all_attempts(state: JobState, reason: str, said: str) -> None:
    assert card.state(a_job(state, reason, attempt(1, 10, 74), attempt(2, 162, 200))) == said


def test_a_job_that_never_started_took_no_time() -> None:
    assert card.state(a_job(JobState.CANCELLED, "Cancelled.")) == "cancelled."
