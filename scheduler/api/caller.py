"""The view of the caller: what they may do, and how many jobs they and their projects have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from scheduler.api.access import Access, Scope
from scheduler.api.convert import from_milli
from scheduler.model import JobState
from scheduler.schema import JobCounts, Me

if TYPE_CHECKING:
    from scheduler.controller.book import Book

_Counts = tuple[int, int, int, int]


def me(access: Access, book: Book) -> Me:
    caller = access.caller
    own, team = counts(access, book)
    return Me(
        name=caller.name,
        admin=caller.admin,
        scopes=[scope.value for scope in Scope if scope in caller.scopes],
        build_quota=from_milli(access.pool.build_quota(caller.name, caller.groups).gpus),
        projects=list(access.projects),
        jobs=_view(own),
        team_jobs=_view(team),
    )


def counts(access: Access, book: Book) -> tuple[_Counts, _Counts]:
    """How many jobs of the caller, and of all projects whose jobs they see, run, stop, wait and are paused."""
    team = [book.states] if access.caller.admin else [book.states_in(name) for name in access.seen_projects]
    return _counts([book.states_of(access.caller.name)]), _counts(team)


def _counts(found: Iterable[Mapping[JobState, int]]) -> _Counts:
    running = stopping = waiting = paused = 0
    for states in found:
        running += states.get(JobState.STARTING, 0) + states.get(JobState.RUNNING, 0)
        stopping += states.get(JobState.STOPPING, 0)
        waiting += states.get(JobState.QUEUED, 0)
        paused += states.get(JobState.PAUSED, 0)
    return running, stopping, waiting, paused


def _view(counted: _Counts) -> JobCounts:
    running, stopping, waiting, paused = counted
    return JobCounts(running=running, stopping=stopping, waiting=waiting, paused=paused)
