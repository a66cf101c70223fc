"""The messages of `GET /events`, and what a listener reports about its view. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from scheduler.schema.jobs import JobView
from scheduler.schema.pool import EnvironmentTotals, Me, ProjectView, SessionView
from scheduler.schema.wire import Wire

MOST_SHOWN = 200
"""The maximum number of jobs that a listener may show."""

JobId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Event(Wire):
    """One message of `GET /events` (`id`, `event: kind`, `data: this`).

    `kind` is job.submitted, job.state, job.deleted, session.state, project.changed, pool.changed, gpu.failed,
    gpu.recovered, schedule.changed or schedule.deleted for an entry of the append-only event log, which a listener that
    resumes after the previous entry receives once. The event includes the current view of the job or session, if there
    is one and the caller may see it.

    A listener also receives job.reason (a waiting job has a new position, or waits for something else) and,
    if it keeps a view, stream.begin (`data.resumed` is false if it must read all lists again), view.figures (`data`
    is `ViewFigures`) and view.written (`data` is `ViewWritten`). These are not entries of the log, and are bounded in
    number.
    """

    id: int
    at: float
    kind: str
    subject: str
    data: dict[str, Any]
    job: JobView | None = None
    session: SessionView | None = None


class WaitingView(Wire):
    """The reason, position and estimated start of a waiting job."""

    id: str
    reason: str | None = Field(None, description="absent if it has not changed")
    notice: str = ""
    position: int | None
    estimated_start: float | None
    earliest_start: float | None = None
    latest_start: float | None = None


class PoolFigures(Wire):
    build: EnvironmentTotals
    train: EnvironmentTotals
    waiting: int


class GpuFigures(Wire):
    """The use of a GPU, where it is measured; as in `GpuView`."""

    node: str
    index: int
    utilisation: float | None
    used_memory_gib: float | None


class ViewFigures(Wire):
    """The changes in what a listener shows; null: no change."""

    me: Me | None = None
    pool: PoolFigures | None = None
    projects: list[ProjectView] | None = None
    jobs: list[WaitingView] | None = None
    gpus: list[GpuFigures] | None = Field(
        None, description="those of the caller's sessions and running jobs that it shows, or of the whole pool"
    )


class ViewWritten(Wire):
    """The running jobs of the caller, of those that the listener shows, whose logs or reports may have grown."""

    printed: list[str] = Field(default_factory=list)
    reported: list[str] = Field(default_factory=list)


class StreamShows(Wire):
    """The jobs that the listener shows from now on: of those that wait it receives the positions and estimated starts,
    and of the caller's own that run it learns when they have written something."""

    jobs: list[JobId] = Field(max_length=MOST_SHOWN)
