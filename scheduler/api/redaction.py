"""Hides jobs and sessions in reasons from callers who may not see them.

The policy and the controller name workloads by their ids. A caller who may see a workload gets its name; for any other
only the project is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.api.access import Access
from scheduler.model import JobId

if TYPE_CHECKING:
    from scheduler.controller.book import Book
    from scheduler.model import Job

_WORKLOAD = re.compile(r"\b(?:[js]-[0-9a-z]{12}|a-[0-9a-z]{12}-\d{1,6})\b")
_ID = re.compile(r"\b(?:[js]-[0-9a-z]{12}|a-[0-9a-z]{12}(?:-\d{1,6})?)\b")


def redacted(text: str, of: Job, book: Book, access: Access) -> str:
    """A reason of the job `of`, with names instead of ids; a finished job that it depends on keeps its id."""
    named = {after.job for after in of.request.after}

    def name(found: re.Match[str]) -> str:
        id = found[0]
        if id == of.id:
            return id
        is_named = id in named or id.rpartition("-")[0] in named  # of an array that was named
        return _name(id, book, access) or (id if is_named else _somebody(id, book))

    return _ID.sub(name, text)


def blocked_by(details: Mapping[str, Any] | None, book: Book, access: Access) -> dict[str, Any] | None:
    """What a job waits for, in machine-readable form; workloads that the caller may not see are left out."""
    if not details:
        return None
    found = {key: value for key, value in details.items() if not _hidden(value, book, access)}
    if "jobs" in found:
        found["jobs"] = [id for id in found["jobs"] if not _hidden(id, book, access)]
    return found


def mentioned(of: Job, *texts: str, details: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The ids, other than its own, in a job's reasons and in what it waits for."""
    found = {id for text in texts for id in _ID.findall(text)}
    for value in (details or {}).values():
        found.update(_ID.findall(" ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return tuple(sorted(found - {of.id}))


def visible(ids: tuple[str, ...], book: Book, access: Access) -> tuple[bool, ...]:
    """Which of these a caller may see: callers who may see the same ones get the same text."""
    return tuple(bool(_name(id, book, access)) for id in ids)


def _hidden(value: object, book: Book, access: Access) -> bool:
    """Whether this is the id of a workload that the caller may not see."""
    if not isinstance(value, str) or not _WORKLOAD.fullmatch(value):
        return False
    job = book.jobs.get(JobId(value))
    return job is None or not access.sees_job(job)


def _name(id: str, book: Book, access: Access) -> str:
    """The name of a job, or of an array's jobs, that the caller may see."""
    job = book.jobs.get(JobId(id))
    if job is not None:
        return job.name if access.sees_job(job) else ""
    members = (job for job in book.dependent if job.request.array is not None and job.request.array.id == id)
    member = next(members, None)
    return member.name.rpartition("-")[0] if member is not None and access.sees_job(member) else ""


def _somebody(id: str, book: Book) -> str:
    job = book.jobs.get(JobId(id))
    if job is not None:
        return f"a job of project {job.request.project}"
    return "a session" if id.startswith("s-") else "another job"
