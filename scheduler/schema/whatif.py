"""What-if simulations of the API: the change, and how the recorded jobs fare with and without it. Times in seconds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scheduler.schema.wire import Wire

MOST_GPUS = 10_000
"""The most GPUs that can be added."""

Guarantee = Annotated[float, Field(ge=0, le=1_000_000)]


class WhatIfAsk(Wire):
    """What if the pool had `gpus` more GPUs, and these projects were guaranteed so many."""

    since: float | None = Field(None, ge=0, description="default: 30 days before `until`")
    until: float | None = Field(None, ge=0, description="default: now")
    gpus: int = Field(0, ge=0, le=MOST_GPUS)
    guaranteed: dict[str, Guarantee] = Field(default_factory=dict, max_length=1000)


class OutcomeView(Wire):
    jobs: int
    mean_wait: float
    median_wait: float
    p95_wait: float
    mean_completion: float
    stops: int


class SideView(Wire):
    """How the jobs fare on one pool. `use` is the share of its GPUs that they hold; `never_started` jobs do not fit."""

    gpus: int
    use: float
    total: OutcomeView | None = Field(description="null if no job ends on all sides")
    by_project: dict[str, OutcomeView]
    never_started: int


class WhatIfReport(Wire):
    """The jobs that were submitted in the span, as recorded and simulated on the pool as it is and on the changed one.
    `unfinished` jobs are taken as ended; those that `never_ran`, or whose project or node pool is `gone`, are left
    out."""

    since: float
    until: float
    unfinished: int
    never_ran: int
    gone: int
    recorded: SideView
    unchanged: SideView
    changed: SideView
