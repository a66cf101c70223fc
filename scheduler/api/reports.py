"""The reports of a running job (`job.report(step=…, loss=…)`), line by line, for its owner."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.engines.files import output_file
from scheduler.engines.throughput import FILE, TAIL
from scheduler.errors import Forbidden, Invalid, NotFound
from scheduler.files.untrusted import read_json
from scheduler.model import JobId
from scheduler.schema import LatestReport, LatestReports, MetricsPage

PAGE = 1024 * 1024
"""The most bytes of the file in one page."""


MOST_JOBS = 100
"""Of so many jobs one request asks for the last reports."""


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
        for_jobs=True,
    )
    async def get(self, job_id: JobId) -> None:
        query = self.query(ReportQuery)
        job = self.access.owned_job(await self.find(job_id), job_id)
        data = await self.api.files.read(output_file(job.id, FILE), query.offset, PAGE)
        self.answer(await asyncio.to_thread(_page, data, query.offset))


class LatestQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    job: list[JobId] = Field(default_factory=list, max_length=MOST_JOBS, description="id of a job; may be repeated")


class LatestReportsHandler(ApiHandler):
    """For lists of jobs: one request for all of them, however long each has reported."""

    @endpoint(
        "The latest metrics that each of these jobs of the caller has reported",
        Scope.SUBMIT,
        query=LatestQuery,
        answer=LatestReports,
        refuses=(Invalid,),
    )
    async def get(self) -> None:
        found = []
        for job_id in dict.fromkeys(self.query(LatestQuery).job):
            job = await self.api.controller.job(job_id)
            if job is not None and self.access.owns(job) and (point := await self._latest(job_id)):
                found.append(LatestReport(job=job_id, point=point))
        self.answer(LatestReports(reports=found))

    async def _latest(self, job: JobId) -> dict[str, Any]:
        """Of the end of its file, which is enough for a job that reports what it did before."""
        file = output_file(job, FILE)
        try:
            reader = await self.api.files.open_file(file)
        except NotFound:
            return {}
        start = max(0, reader.size - TAIL)
        await reader.close()
        data = await self.api.files.read(file, start, TAIL)
        page = await asyncio.to_thread(_page, data, start)
        first = (point for point in page.points if point.get("rank", 0) == 0)
        return {name: value for point in first for name, value in point.items() if value is not None}


def _page(data: bytes, offset: int) -> MetricsPage:
    """Whole lines only: an incomplete line is read next time."""
    end = data.rfind(b"\n") + 1
    if not end and len(data) == PAGE:
        end = PAGE  # no line of ours is so long
    return MetricsPage(points=list(filter(None, map(_point, data[:end].splitlines()))), next=offset + end)


def _point(line: bytes) -> dict[str, Any] | None:
    """The job writes this file: lines that are not reports are ignored."""
    try:
        found = read_json(line)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return {name: value for name, value in found.items() if not isinstance(value, (dict, list))}
