"""What `GET /events` tells, and what a listener says of itself. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from scheduler.schema.jobs import JobView
from scheduler.schema.pool import EnvironmentTotals, Me, ProjectView, SessionView
from scheduler.schema.wire import Wire

MOST_SHOWN = 200
"""So many jobs a listener shows at most."""

JobId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Event(Wire):
    """One message of `GET /events` (`id`, `event: kind`, `data: this`).

    `kind` is one of job.submitted, job.state, job.deleted, session.state, project.changed, pool.changed: a line of the
    append-only record, which is told once to whoever resumes after the one before. The view of the thing as it is now
    comes along where there is one and the caller may see it.

    Besides, a listener is told job.reason (a job that waits has another place in line, or waits for something else) or,
    where it keeps a view, stream.begin (`data.resumed` is false where all lists have to be read again) and view.figures
    (`data` is `ViewFigures`). These are no lines of the record, and come at most every few seconds.
    """

    id: int
    at: float
    kind: str
    subject: str
    data: dict[str, Any]
    job: JobView | None = None
    session: SessionView | None = None


class WaitingView(Wire):
    """What a job that waits may expect."""

    id: str
    reason: str | None = Field(None, description="absent where it is the same as before")
    position: int | None
    estimated_start: float | None
    earliest_start: float | None = None
    latest_start: float | None = None


class PoolFigures(Wire):
    build: EnvironmentTotals
    train: EnvironmentTotals
    waiting: int


class ViewFigures(Wire):
    """What has changed of what a listener shows; null: nothing of it has."""

    me: Me | None = None
    pool: PoolFigures | None = None
    projects: list[ProjectView] | None = None
    jobs: list[WaitingView] | None = None


class StreamShows(Wire):
    """What the listener shows from now on: of these jobs it is told their place in line and when they are likely to
    start."""

    jobs: list[JobId] = Field(max_length=MOST_SHOWN)
