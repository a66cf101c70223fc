"""What happens to a job, as it happens: its states and its output, one after the other, for a thread that waits.

What must hold:
- Output comes in order, each byte once, over attempts and over restarts of the scheduler.
- Who reads slowly holds up the job's log stream, never fills memory.
- Letting go at any moment leaves nothing running here, and the job alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scheduler.api.schema import JobView
from scheduler.client import Address, AsyncClient
from scheduler.errors import RunaiError, Unavailable

WAITING = 64
"""So many pieces wait for the reader."""

PATIENCE = 120.0
"""For how many seconds a scheduler that does not answer is waited for."""

_NEXT_ATTEMPT = re.compile(rb"\n--- attempt (\d+) ---\n")
_FIRST_LOOK, _LATER_LOOK = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Lost:
    """The scheduler does not answer just now."""

    sentence: str


Happening = JobView | bytes | Lost


class Follower:
    """Iterate over it for what happens until the job has ended; `with` it, to let go in any case."""

    def __init__(self, locate: Callable[[], Address], job: JobView) -> None:
        """`locate` is asked again when the scheduler is lost: it may come back elsewhere, or have to be started."""
        self._locate = locate
        self._id = job.id
        self._queue: queue.Queue[Happening | Exception | None] = queue.Queue(WAITING)
        self._let_go = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"follow {job.id}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._attempt = job.attempts[-1].number if job.attempts else None
        self._offset = 0
        self._tail = b""

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._let_go.set()
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(timeout=2)

    def __iter__(self) -> Iterator[Happening]:
        """The last thing is the job as it ended. Raises what the scheduler refuses, and `Unavailable` after `PATIENCE`."""
        while (happening := self._queue.get()) is not None:
            if isinstance(happening, Exception):
                raise happening
            yield happening

    # -- in the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            await self._tell(await self._until_it_ended())
            await self._tell(None)
        except Exception as error:
            await self._tell(error)

    async def _tell(self, happening: Happening | Exception | None) -> None:
        def put() -> None:
            while not self._let_go.is_set():
                with contextlib.suppress(queue.Full):
                    self._queue.put(happening, timeout=0.2)
                    return

        try:
            self._queue.put_nowait(happening)
        except queue.Full:
            await asyncio.to_thread(put)

    async def _until_it_ended(self) -> JobView:
        """Tell what happens, over whatever breaks the line, until the job has ended."""
        lost_for, pause = 0.0, 0.1
        while True:
            before = self._offset
            try:
                ended = await self._as_long_as_it_answers()
            except Unavailable as error:
                if lost_for == 0:
                    await self._tell(Lost(error.sentence))
                if lost_for > PATIENCE:
                    raise
            else:
                if ended is not None:
                    return ended
            if self._offset > before:
                lost_for, pause = 0.0, 0.1
            await asyncio.sleep(pause)
            lost_for, pause = lost_for + pause, min(pause * 1.5, 2.0)

    async def _as_long_as_it_answers(self) -> JobView | None:
        """Send on states and output; the job, where it has ended when the stream does."""
        address = await asyncio.to_thread(self._locate)
        async with AsyncClient(address.url, address.token) as client:
            states = asyncio.create_task(self._states(client))
            try:
                async for piece in client.logs(self._id, attempt=self._attempt, offset=self._offset):
                    self._count(piece)
                    await self._tell(piece)
                job = await client.job(self._id)
            finally:
                states.cancel()
            return job if job.state.final else None

    def _count(self, piece: bytes) -> None:
        """Keep account of where in which attempt's output the stream is, to take it up there again."""
        self._attempt = self._attempt or 1
        text = self._tail + piece
        self._offset += len(piece)
        for match in _NEXT_ATTEMPT.finditer(text):
            if match.end() > len(self._tail):
                self._attempt = int(match[1])
                self._offset = len(text) - match.end()
        self._tail = text[-40:]

    async def _states(self, client: AsyncClient) -> None:
        """Tell of the job's states: from the event stream, and by looking until that is sure to run."""
        looking = asyncio.create_task(self._look(client))
        try:
            async for event in client.events(subject=self._id):
                if event.job is not None:
                    await self._tell(event.job)
        except RunaiError:
            pass  # whatever it is, who follows the log learns of it, too
        finally:
            looking.cancel()

    async def _look(self, client: AsyncClient) -> None:
        pause = _FIRST_LOOK
        while True:
            with contextlib.suppress(RunaiError):
                await self._tell(await client.job(self._id))
            await asyncio.sleep(pause)
            pause = min(pause * 3, _LATER_LOOK)
