"""Filters of jobs and events, the same for the store, for the book in memory and for callers."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase

from scheduler.model import ArrayId, Job, JobId, JobState, ProjectName, ScheduleId, UserName


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Jobs that meet all of these; a condition that is `None` holds for every job. Each of the `words` occurs in the
    job's name, user, project, state or id; the case of ASCII letters does not matter."""

    ids: Collection[JobId] | None = None
    states: Collection[JobState] | None = None
    project: ProjectName | None = None
    projects: Collection[ProjectName] | None = None
    user: UserName | None = None
    name: str | None = None
    array: ArrayId | None = None
    schedule: ScheduleId | None = None
    words: tuple[str, ...] = ()

    def matches(self, job: Job) -> bool:
        array = job.request.array
        return (
            (self.ids is None or job.id in self.ids)
            and (self.states is None or job.state in self.states)
            and self.project in (None, job.request.project)
            and (self.projects is None or job.request.project in self.projects)
            and self.user in (None, job.user)
            and self.name in (None, job.name)
            and self.schedule in (None, job.schedule)
            and (self.array is None or (array is not None and array.id == self.array))
            and (not self.words or self._has_words(job))
        )

    def _has_words(self, job: Job) -> bool:
        texts = [lower(text) for text in (job.name, job.user, job.request.project, job.state, job.id)]
        return all(any(lower(word) in text for text in texts) for word in self.words)


def lower(text: str) -> str:
    """With ASCII letters in lower case, as SQLite's function of this name."""
    return text.translate(_LOWER)


_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


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
    """Changes that meet all of these; a condition that is `None` holds for every change. `before` is the id of a
    change: only earlier ones, for the next page of a list."""

    user: str | None = None
    kind: str | None = None
    name: str | None = None
    before: int | None = None
