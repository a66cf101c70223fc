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

_ID = re.compile(r"\b[js]-[0-9a-z]{12}\b")


def told(text: str, of: str, book: Book, access: Access) -> str:
    """A reason of the job `of`, with names in the place of ids."""
    return _ID.sub(lambda found: found[0] if found[0] == of else _name(found[0], book, access), text)


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
