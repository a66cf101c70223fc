"""Which jobs and events are wanted: one description for the store, for what is in memory and for whoever asks."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass

from scheduler.model import Job, JobId, JobState, UserName


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Jobs that meet all of these; a condition that is `None` holds for every job.

    `before` is `(submitted, id)` of a job: those that were submitted before it, as the next page of a list wants them.
    """

    ids: Collection[JobId] | None = None
    states: Collection[JobState] | None = None
    project: str | None = None
    projects: Collection[str] | None = None
    user: UserName | None = None
    name: str | None = None
    array: str | None = None
    before: tuple[float, str] | None = None

    def matches(self, job: Job) -> bool:
        array = job.request.array
        return (
            (self.ids is None or job.id in self.ids)
            and (self.states is None or job.state in self.states)
            and self.project in (None, job.request.project)
            and (self.projects is None or job.request.project in self.projects)
            and self.user in (None, job.user)
            and self.name in (None, job.name)
            and (self.array is None or (array is not None and array.id == self.array))
            and (self.before is None or (job.submitted, job.id) < self.before)
        )


EVERY_JOB = JobFilter()


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Events of one `subject`, or those that concern a `user` or the members of `projects`: what happens to jobs of
    theirs, and to the pool and its projects. A condition that is `None` holds for every event.
    """

    subject: str | None = None
    user: UserName | None = None
    projects: Set[str] | None = None


EVERY_EVENT = EventFilter()


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Changes that meet all of these; a condition that is `None` holds for every change. `before` is the id of one:
    those before it, as the next page of a list wants them."""

    user: str | None = None
    kind: str | None = None
    name: str | None = None
    before: int | None = None
