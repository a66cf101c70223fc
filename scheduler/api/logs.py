"""A worker's output as text: one page, or a stream that follows it."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict, Field
from tornado.iostream import StreamClosedError

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import TEXT, endpoint
from scheduler.engines.files import log_file
from scheduler.errors import Forbidden, Invalid, NotFound
from scheduler.model import Job, JobId
from scheduler.schema import ATTEMPT_LINE, LogTimes

if TYPE_CHECKING:
    from scheduler.engines.files import JobFiles

PAGE = 1024 * 1024
"""The most bytes of one page, or of one piece of a stream."""

MOST_TIMES = 10_000

CHECK_EVERY = 30.0
"""After how many seconds a stream checks its caller's permissions again."""

_SOON, _LATER = 0.05, 0.5

_TOGETHER = 0.025
"""Seconds between two pieces of a stream: output within them is sent together, so that a job that prints without end
costs the scheduler little."""


class LogTimesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rank: int = Field(0, ge=0)
    attempt: int | None = Field(None, ge=1, description="absent: the latest, and with follow all that come after it")
    offset: int = Field(0, ge=0, description="the first byte")


class LogQuery(LogTimesQuery):
    limit: int = Field(PAGE, ge=1, le=PAGE)
    follow: bool = False


class Reading(Protocol):
    """One reader's position in the output of a job's attempts."""

    attempt: int
    rank: int
    seen: int
    """The length of the attempt's log that it knows; a waiting reader waits for more."""

    async def take(self, over: bool) -> bytes:
        """The new output, as it is sent; `over`: the attempt has ended."""

    def next_attempt(self) -> bytes:
        """Continue with the next attempt; returns what is sent between the two."""


class FollowHandler(ApiHandler):
    """Sends the existing output and, with `follow`, new output as it comes."""

    async def send(self, job: Job, reading: Reading, *, follow: bool, only: bool) -> None:
        self.set_header("Runai-Attempt", str(reading.attempt))
        if follow:
            self.set_header("X-Accel-Buffering", "no")
            self.send_at_once()
            try:
                await self._follow(job, reading, only)
            except StreamClosedError:
                return
            if self._stopped:
                return
        else:
            self.write(await reading.take(not _runs(job, reading)))
        self.finish()

    async def owned(self, job_id: JobId) -> Job:
        return self.access.owned_job(await self.find(job_id), job_id)

    def first(self, job: Job, attempt: int | None, follow: bool) -> int:
        """The first attempt to send. Raises `NotFound`."""
        latest = job.attempts[-1].number if job.attempts else 0
        if attempt is not None and attempt > latest + follow:
            raise NotFound(f"Job {job.id} has had {latest} attempts.", field="attempt")
        return attempt or latest or 1

    async def _follow(self, job: Job, reading: Reading, only: bool) -> None:
        """Send existing and new output, no faster than it is read, until there is no more.

        It ends with the attempt, where it is the `only` one requested, else with the job. It also ends when the caller
        may no longer read it.
        """
        checked, pause = time.monotonic(), _SOON
        await self.flush()
        while not self._stopped:
            # Read the job before its log: the log of an ended attempt is then complete.
            job = await self.owned(job.id)
            latest = job.attempts[-1].number if job.attempts else 0
            runs = _runs(job, reading)
            piece = await reading.take(not runs) if latest >= reading.attempt else b""
            if piece:
                pause = _SOON
                self.write(piece)
                await self.flush()
                await asyncio.sleep(_TOGETHER)
            elif latest > reading.attempt and not only:
                self.write(reading.next_attempt())
            elif job.state.final or (only and latest >= reading.attempt and not runs):
                return
            elif not (runs and await self._grows(job, reading)):
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _LATER)
            if time.monotonic() - checked > CHECK_EVERY:
                checked = time.monotonic()
                if not await self.still_allowed():
                    return

    async def _grows(self, job: Job, reading: Reading) -> bool:
        """Wait for more of this attempt's output; false where no more will come, or the reader has gone."""
        wait = self.api.files.grown(log_file(job.id, reading.attempt, reading.rank), reading.seen)
        self._waiting = asyncio.ensure_future(wait)
        done, _ = await asyncio.wait({self._waiting}, timeout=CHECK_EVERY)
        if not done:
            self._waiting.cancel()
            return True
        return not self._waiting.cancelled() and self._waiting.result()

    _stopped = False
    _waiting: asyncio.Future[bool] | None = None

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()


def _runs(job: Job, reading: Reading) -> bool:
    return bool(job.attempts) and job.attempts[-1].number == reading.attempt and job.state.holds_gpus


class LogHandler(FollowHandler):
    @endpoint(
        "A worker's output: a page from `offset`, or with `follow` a stream until the job has ended",
        Scope.SUBMIT,
        query=LogQuery,
        media=TEXT,
        refuses=(NotFound, Forbidden, Invalid),
    )
    async def get(self, job_id: JobId) -> None:
        query = self.query(LogQuery)
        job = await self.owned(job_id)
        _check(query, job)
        attempt = self.first(job, query.attempt, query.follow)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        limit = PAGE if query.follow else query.limit
        reading = _Text(self.api.files, job_id, attempt, query.rank, query.offset, limit)
        await self.send(job, reading, follow=query.follow, only=query.attempt is not None)


class LogTimesHandler(FollowHandler):
    @endpoint(
        "When a worker's log had which length, from `offset` on",
        Scope.SUBMIT,
        query=LogTimesQuery,
        answer=LogTimes,
        refuses=(NotFound, Forbidden, Invalid),
    )
    async def get(self, job_id: JobId) -> None:
        query = self.query(LogTimesQuery)
        job = await self.owned(job_id)
        _check(query, job)
        attempt = self.first(job, query.attempt, False)
        times = await self.api.files.log_times(log_file(job_id, attempt, query.rank))
        first = bisect_right(times, query.offset, key=itemgetter(0))
        self.answer(LogTimes(times=times[first : first + MOST_TIMES]))


def _check(query: LogTimesQuery, job: Job) -> None:
    if query.rank >= job.request.workers:
        raise Invalid(f"rank: job {job.id} has {job.request.workers} workers, with ranks from 0.", field="rank")


@dataclass
class _Text:
    """A worker's log, byte for byte."""

    files: JobFiles
    job: JobId
    attempt: int
    rank: int
    seen: int
    limit: int

    async def take(self, over: bool) -> bytes:
        log = log_file(self.job, self.attempt, self.rank)
        piece = await self.files.read(log, self.seen, self.limit)
        self.seen += len(piece)
        return piece

    def next_attempt(self) -> bytes:
        self.attempt, self.seen = self.attempt + 1, 0
        return ATTEMPT_LINE.format(self.attempt).encode()
