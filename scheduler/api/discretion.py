"""What a caller is told of the jobs and sessions that a reason speaks of.

The policy and the controller name workloads by their ids. A caller who may see one is told its name; of any other only
the project is said, for what a caller may not see does not exist for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.api.access import Access

if TYPE_CHECKING:
    from scheduler.controller.book import Book
    from scheduler.model import Job

_ID = re.compile(r"\b(?:[js]-[0-9a-z]{12}|a-[0-9a-z]{12}-\d{1,6})\b")


def told(text: str, of: Job, book: Book, access: Access) -> str:
    """A reason of the job `of`, with names in the place of ids; those that it was sent to come after stay as they are."""
    own = {of.id, *(after.job for after in of.request.after if after.job not in book.jobs)}

    def name(found: re.Match[str]) -> str:
        spoken = found[0] in own or found[0].rpartition("-")[0] in own  # of an array that was named
        return found[0] if spoken else _name(found[0], book, access)

    return _ID.sub(name, text)


def blocked_by(details: Mapping[str, Any] | None, book: Book, access: Access) -> dict[str, Any] | None:
    """What a job waits for, for programs; workloads that the caller may not see are left out."""
    if not details:
        return None
    found = {key: value for key, value in details.items() if not _hidden(value, book, access)}
    if "jobs" in found:
        found["jobs"] = [id for id in found["jobs"] if not _hidden(id, book, access)]
    return found


def _hidden(value: object, book: Book, access: Access) -> bool:
    """Whether this is the id of a workload that the caller may not see."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        return False
    job = book.jobs.get(value)
    return job is None or not access.sees_job(job)


def _name(id: str, book: Book, access: Access) -> str:
    job = book.jobs.get(id)
    if job is not None:
        return f"{job.name} ({id})" if access.sees_job(job) else f"a job of project {job.request.project}"
    return "a session" if id.startswith("s-") else "another job"
