"""The two workers of job `j`, and access to what the scheduler knows of its agents."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from scheduler.engines.agents.agents import Agents
from scheduler.engines.agents.tokens import Worker
from scheduler.model import JobId
from tests.engines.backends import Scheduler

FIRST, SECOND = Worker(JobId("j"), 1, 0), Worker(JobId("j"), 1, 1)


def agents_of(here: Scheduler) -> Agents:
    assert here.backend.agents is not None
    return here.backend.agents


Ask = Callable[[str], httpx.AsyncClient]
