"""The jobs of an array, page by page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scheduler.errors import NotFound

if TYPE_CHECKING:
    from scheduler.client.sync import Client
    from scheduler.schema import JobView

PAGE = 500


def is_array(name: str) -> bool:
    """Whether this is the id of an array, not of a job."""
    return re.fullmatch(r"a-[0-9a-z]+", name) is not None


def jobs_of(client: Client, array: str) -> list[JobView]:
    """The jobs of an array in the order of their indices. Raises `NotFound`."""
    found, after = [], None
    while True:
        page = client.jobs(array=array, limit=PAGE, after=after)
        found += page.jobs
        after = page.next
        if after is None:
            break
    if not found:
        raise NotFound(f"There is no array {array} that you may see. `jupyter runai list` shows your jobs.")
    return sorted(found, key=lambda job: job.index or 0)
