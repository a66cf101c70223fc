"""Filters of jobs and events, as conditions of a query."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, cast, func, or_

from scheduler.store import tables
from scheduler.store.filter import EventFilter, JobFilter, lower


def of_jobs(wanted: JobFilter) -> Iterator[ColumnElement[bool]]:
    """The jobs of an array are called `<array>-<index>`."""
    job = tables.jobs.c
    if wanted.ids is not None:
        yield job.id.in_(sorted(wanted.ids))
    if wanted.states is not None:
        if not any(state.final for state in wanted.states):
            yield job.ended.is_(None)  # which an index has
        yield job.state.in_(sorted(state.value for state in wanted.states))
    if wanted.project is not None:
        yield job.project == wanted.project
    if wanted.projects is not None:
        yield job.project.in_(sorted(wanted.projects))
    if wanted.user is not None:
        yield job.user == wanted.user
    if wanted.name is not None:
        yield job.name == wanted.name
    if wanted.array is not None:
        yield job.id.between(f"{wanted.array}-0", f"{wanted.array}-:")
    if wanted.schedule is not None:
        yield job.schedule == wanted.schedule
    for word in wanted.words:
        texts = (job.name, job.user, job.project, job.state, job.id)
        yield or_(*(func.lower(cast(text, tables.Id)).contains(lower(word), autoescape=True) for text in texts))


def of_events(wanted: EventFilter) -> Iterator[ColumnElement[bool]]:
    event = tables.events.c
    if wanted.subject is not None:
        yield event.subject == wanted.subject
    concerned = []
    if wanted.user is not None:
        concerned.append(event.user == wanted.user)
    if wanted.projects is not None:
        concerned.append(event.project.in_(sorted(wanted.projects)))
    if concerned:
        yield or_(event.kind.like("pool.%"), event.kind.like("project.%"), *concerned)
