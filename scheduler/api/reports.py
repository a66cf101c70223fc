"""What a job tells of itself while it runs, line by line (`job.report(step=…, loss=…)`), for its owner."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.engines.files import output_file
from scheduler.engines.throughput import FILE
from scheduler.errors import Forbidden, Invalid, NotFound
from scheduler.files.untrusted import read_json
from scheduler.model import JobId
from scheduler.schema import MetricsPage

PAGE = 1024 * 1024
"""The most bytes of the file that one page is made of."""


class ReportQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    offset: int = Field(0, ge=0, description="`next` of the previous page")


class ReportHandler(ApiHandler):
    @endpoint(
        "The metrics that a job has reported, from `offset`",
        Scope.SUBMIT,
        query=ReportQuery,
        answer=MetricsPage,
        refuses=(NotFound, Forbidden, Invalid),
    )
    async def get(self, job_id: JobId) -> None:
        query = self.query(ReportQuery)
        job = self.access.owned_job(await self.find(job_id), job_id)
        data = await self.api.files.read(output_file(job.id, FILE), query.offset, PAGE)
        self.answer(await asyncio.to_thread(_page, data, query.offset))


def _page(data: bytes, offset: int) -> MetricsPage:
    """Whole lines only: what is being written is read next time."""
    end = data.rfind(b"\n") + 1
    if not end and len(data) == PAGE:
        end = PAGE  # no line of ours is so long
    return MetricsPage(points=list(filter(None, map(_point, data[:end].splitlines()))), next=offset + end)


def _point(line: bytes) -> dict[str, Any] | None:
    """The job wrote it: what is no report is left out."""
    try:
        found = read_json(line)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return {name: value for name, value in found.items() if not isinstance(value, (dict, list))}
