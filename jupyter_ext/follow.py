"""Follows a job: its states and its output, in order, for a thread that waits.

What must hold:
- Output comes in order, each piece once, across attempts and restarts of the scheduler.
- A slow reader slows the log stream down, and never fills memory.
- Detaching at any moment leaves nothing running here, and does not affect the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from scheduler.client import Address, AsyncClient
from scheduler.errors import RunaiError, Unavailable
from scheduler.model import JobState
from scheduler.schema import Event, JobView, ViewFigures, ViewWritten

WAITING = 64
"""The most pieces in the queue of the reader."""

QUIET = 1.0
"""Seconds without anything new after which a reader is told so."""

_SOON, _LATER = 0.1, 5.0
"""Seconds until the next attempt to connect, at first and at most."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The scheduler does not answer at the moment."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Written:
    """The job may have printed, in any of its workers, or reported."""

    printed: bool
    reported: bool


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing has happened for a second."""


Output = dict[str, Any]
"""An output message of nbformat: text, or a display of the job."""

Happening = JobView | Output | Written | Disconnected


class Follower:
    """Iterate over it for events until the job has ended; use it in a `with`, so that it always detaches."""

    def __init__(self, locate: Callable[[], Address], job: JobView) -> None:
        """`locate` is called again when the connection is lost: the scheduler may have to be started."""
        self._locate = locate
        self._id = job.id
        self._seen = job
        self._queue: queue.Queue[Happening | Exception | None] = queue.Queue(WAITING)
        self._detach = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"follow {job.id}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.detach()
        self._thread.join(timeout=2)

    def detach(self) -> None:
        """Stop following, from any thread and without waiting; iteration ends."""
        self._detach.set()
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)
        with contextlib.suppress(queue.Full):  # a reader with a full queue notices by itself
            self._queue.put_nowait(None)

    def __iter__(self) -> Iterator[Happening | Quiet]:
        """The last item is the ended job. Raises the scheduler's errors, `Unavailable` after a minute without it."""
        while True:
            try:
                happening = self._queue.get(timeout=QUIET)
            except queue.Empty:
                yield Quiet()
                continue
            if happening is None or self._detach.is_set():
                return
            if isinstance(happening, Exception):
                raise happening
            yield happening

    def gathered(self, seconds: float) -> Iterator[list[Happening]]:
        """The same, with all that comes within `seconds` as one batch, for slow consumers."""
        over = False
        happening: Happening | Exception | None = None
        while not over:
            batch: list[Happening] = []
            end = math.inf
            while not over and (now := time.monotonic()) < end:
                try:
                    happening = self._queue.get(timeout=end - now if batch else None)
                except queue.Empty:
                    break
                if happening is None or isinstance(happening, Exception) or self._detach.is_set():
                    over = True
                else:
                    end = min(end, time.monotonic() + seconds)
                    batch.append(happening)
            if batch:
                yield batch
        if isinstance(happening, Exception):
            raise happening

    # -- in the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._detach.is_set():  # there was no task to cancel yet
            return
        try:
            address = await asyncio.to_thread(self._locate)
            async with AsyncClient(address.url, address.token, address.folder) as client:
                beside = asyncio.create_task(self._watch(client))
                try:
                    async for line in client.display(self._id):
                        await self._tell(line.output)
                    last = await client.wait(self._id)
                finally:
                    beside.cancel()
                    await asyncio.gather(beside, return_exceptions=True)
            await self._tell(last)
            await self._tell(None)
        except Exception as error:
            await self._tell(error)

    async def _tell(self, happening: Happening | Exception | None) -> None:
        def put() -> None:
            while not self._detach.is_set():
                with contextlib.suppress(queue.Full):
                    self._queue.put(happening, timeout=0.2)
                    return

        try:
            self._queue.put_nowait(happening)
        except queue.Full:
            await asyncio.to_thread(put)

    async def _watch(self, client: AsyncClient) -> None:
        """Tell each change of the job and what it writes, by the stream of events; errors also reach that of output.

        Where nothing answers, the scheduler is located again, which starts an embedded one.
        """
        pause, lost = _SOON, False
        while True:
            try:
                async for event in client.watch([self._id], subject=self._id):
                    pause, lost = _SOON, False
                    await self._take(client, event)
            except Unavailable as error:
                if not lost:
                    await self._tell(Disconnected(error.sentence))
                lost = True
                with contextlib.suppress(RunaiError):
                    await asyncio.to_thread(self._locate)
            except RunaiError:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 3, _LATER)

    async def _take(self, client: AsyncClient, event: Event) -> None:
        match event.kind:
            case "stream.begin":
                await self._see(await client.job(self._id))
            case "view.figures":
                for row in ViewFigures.model_validate(event.data).jobs or ():
                    if self._seen.state is JobState.QUEUED:
                        news = row.model_dump(exclude={"reason"} if row.reason is None else None)
                        await self._see(self._seen.model_copy(update=news))
            case "view.written":
                told = ViewWritten.model_validate(event.data)
                await self._tell(Written(self._id in told.printed, self._id in told.reported))
            case _ if event.job is not None:
                await self._see(event.job)

    async def _see(self, job: JobView) -> None:
        self._seen = job
        await self._tell(job)
