"""Wakes what shows jobs when these may have changed: one reader of the scheduler's event stream for the whole kernel.

What must hold:
- A change after a look, or one that was missed without a connection, wakes; nothing is polled.
- The reader runs while somebody waits for changes, and no longer.
- While the scheduler does not answer, the reader tries again; without a hub, it starts the scheduler again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable

from jupyter_ext.connection import connect, locate
from scheduler.client import AsyncClient
from scheduler.errors import RunaiError
from scheduler.schema import Event, ViewFigures, ViewWritten
from scheduler.schema.events import MOST_SHOWN

TOGETHER = 0.5
"""Seconds: changes within this time wake once."""

AGAIN = 2.0
"""Seconds until the next attempt to connect."""


class Changes:
    """Use it in a `with`, and `wait` between two looks. `jobs` returns the ids of the jobs that have not ended.

    The first `wait` ends at once: the jobs may have changed between an earlier look and the `with`.
    """

    def __init__(self, jobs: Callable[[], Iterable[str]]) -> None:
        self._jobs = jobs
        self._happened = threading.Event()
        self._rests = 0.0
        self.ids = frozenset(jobs())

    def __enter__(self) -> Changes:
        self._happened.set()
        _Reader.enter(self)
        return self

    def __exit__(self, *error: object) -> None:
        _Reader.leave(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the jobs may have changed, or reported, since the last time; whether they may."""
        self.ids = frozenset(self._jobs())
        if not self.ids:  # others have looked meanwhile: they have ended
            return True
        _Reader.show()
        if not self._happened.wait(timeout):
            return False
        time.sleep(max(0.0, self._rests - time.monotonic()))
        self._happened.clear()
        self._rests = time.monotonic() + TOGETHER
        return True

    def take(self, changed: frozenset[str] | None) -> None:
        """These jobs have changed, or any may have (`None`)."""
        if changed is None or not changed.isdisjoint(self.ids):
            self._happened.set()


class _Reader:
    """A thread with one stream."""

    _lock, _telling = threading.Lock(), threading.Lock()
    _waiting: frozenset[Changes] = frozenset()
    _current: _Reader | None = None

    @classmethod
    def enter(cls, changes: Changes) -> None:
        with cls._lock:
            cls._waiting |= {changes}
            if cls._current is None or not cls._current._thread.is_alive():
                cls._current = cls()
                cls._current._thread.start()

    @classmethod
    def leave(cls, changes: Changes) -> None:
        with cls._lock:
            cls._waiting -= {changes}
            if not cls._waiting and cls._current is not None:
                cls._current._end()
                cls._current = None

    @classmethod
    def show(cls) -> None:
        """Tell the stream which jobs are shown, where these are others than before."""
        with cls._telling:
            reader, shown = cls._current, cls._shown()
            if reader is not None and reader._stream is not None and reader._told != shown:
                reader._told = shown
                with contextlib.suppress(RunaiError):  # the next stream begins with them
                    connect().show(reader._stream, shown)

    @classmethod
    def _shown(cls) -> list[str]:
        return sorted({id for changes in cls._waiting for id in changes.ids})[:MOST_SHOWN]

    def __init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="changes of jobs", daemon=True)
        self._ending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stream: str | None = None
        self._told: list[str] = []

    def _end(self) -> None:
        self._ending = True
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        while not self._ending:
            with contextlib.suppress(RunaiError):
                address = await asyncio.to_thread(locate)
                async with AsyncClient(address.url, address.token, address.folder) as client:
                    self._told = self._shown()
                    async for event in client.watch(self._told):
                        self._take(event)
            self._stream = None
            await asyncio.sleep(AGAIN)

    def _take(self, event: Event) -> None:
        if event.kind == "stream.begin":
            self._stream = event.subject
        changed = _changed(event)
        for changes in self._waiting:
            changes.take(changed)


def _changed(event: Event) -> frozenset[str] | None:
    """The jobs that an event is about; `None`: any may have changed before it."""
    match event.kind:
        case "stream.begin":
            return None
        case "view.figures":
            return frozenset(job.id for job in ViewFigures.model_validate(event.data).jobs or ())
        case "view.written":
            return frozenset(ViewWritten.model_validate(event.data).reported)
        case _:
            return frozenset({event.subject})
