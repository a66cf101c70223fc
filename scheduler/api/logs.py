"""A worker's output as text: one page of it, or all of it as it grows."""

from __future__ import annotations

import asyncio
import time

from pydantic import BaseModel, ConfigDict, Field
from tornado.iostream import StreamClosedError

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import TEXT, endpoint
from scheduler.api.schema import ATTEMPT_LINE
from scheduler.errors import Forbidden, Invalid, NotFound
from scheduler.model import Job

PAGE = 1024 * 1024
"""The most bytes that one page, or one piece of a stream, has."""

CHECK_EVERY = 30.0
"""After how many seconds a stream asks again whether its caller still may read it."""

_SOON, _LATER = 0.05, 0.5


class LogQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rank: int = Field(0, ge=0)
    attempt: int | None = Field(
        None, ge=1, description="absent: the latest, and with follow all that come after it"
    )
    offset: int = Field(0, ge=0, description="the first byte")
    limit: int = Field(PAGE, ge=1, le=PAGE)
    follow: bool = False


class LogHandler(ApiHandler):
    @endpoint(
        "A worker's output: a page from `offset` on, or with `follow` all that comes until the job has ended",
        Scope.SUBMIT,
        query=LogQuery,
        media=TEXT,
        refuses=(NotFound, Forbidden, Invalid),
    )
    async def get(self, job_id: str) -> None:
        query = self.query(LogQuery)
        job = await self._owned(job_id)
        if query.rank >= job.request.workers:
            raise Invalid(
                f"rank: job {job_id} has {job.request.workers} workers, with ranks from 0.", field="rank"
            )
        latest = job.attempts[-1].number if job.attempts else 0
        if query.attempt is not None and query.attempt > latest + query.follow:
            raise NotFound(f"Job {job_id} has had {latest} attempts so far.", field="attempt")
        number = query.attempt or latest or 1
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Runai-Attempt", str(number))
        if query.follow:
            self.set_header("X-Accel-Buffering", "no")
            self.send_at_once()
            try:
                await self._follow(job, number, query.attempt is not None, query.rank, query.offset)
            except StreamClosedError:
                return
            if self._stopped:
                return
        else:
            read_log = self.api.engine.read_log
            self.write(await read_log(job_id, number, query.rank, query.offset, query.limit))
        self.finish()

    async def _owned(self, job_id: str) -> Job:
        return self.access.owned_job(await self.api.controller.job(job_id), job_id)

    async def _follow(self, job: Job, number: int, only: bool, rank: int, offset: int) -> None:
        """Send what there is and what comes, no faster than it is taken, until there is no more.

        That is the end of attempt `number` where it is the `only` one asked for, else the end of the job. It also ends
        when the caller may no longer read it.
        """
        checked, pause = time.monotonic(), _SOON
        await self.flush()
        while not self._stopped:
            # The job first and its log after it: what an ended attempt wrote is complete when it is read.
            job = await self._owned(job.id)
            latest = job.attempts[-1].number if job.attempts else 0
            runs = latest == number and job.state.holds_gpus
            piece = (
                await self.api.engine.read_log(job.id, number, rank, offset, PAGE)
                if latest >= number
                else b""
            )
            if piece:
                offset += len(piece)
                pause = _SOON
                self.write(piece)
                await self.flush()
            elif latest > number and not only:
                number, offset = number + 1, 0
                self.write(ATTEMPT_LINE.format(number))
            elif job.state.final or (only and latest >= number and not runs):
                return
            elif not (runs and await self._grows(job, number, rank, offset)):
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _LATER)
            if time.monotonic() - checked > CHECK_EVERY:
                checked = time.monotonic()
                if not await self.still_allowed():
                    return

    async def _grows(self, job: Job, number: int, rank: int, offset: int) -> bool:
        """Wait for more of this attempt's output; False where no more will come, or nobody reads any more."""
        self._waiting = asyncio.ensure_future(self.api.engine.wait_log(job.id, number, rank, offset))
        done, _ = await asyncio.wait({self._waiting}, timeout=CHECK_EVERY)
        if not done:
            self._waiting.cancel()
            return True
        return not self._waiting.cancelled() and self._waiting.result()

    _stopped = False
    _waiting: asyncio.Future[bool] | None = None

    def on_connection_close(self) -> None:
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()
