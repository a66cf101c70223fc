"""Tells listeners that running jobs have written to their logs or reports, so that pages need not poll them.

A listener that keeps a view learns of the caller's own jobs, of those that it shows. What must hold: however much is
written, a listener gets few messages, and each names what may have grown since the message before; a page that then
reads misses nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from scheduler.api.messages import written
from scheduler.engines.files import Area
from scheduler.model import Job, JobId
from scheduler.schema import Event, ViewWritten

if TYPE_CHECKING:
    from scheduler.api.listener import Listener
    from scheduler.controller import Controller
    from scheduler.engines.files import JobFiles

TOGETHER = 0.5
"""Seconds between two messages to a listener."""


class Writing:
    """`files` are watched while somebody shows the job."""

    def __init__(self, controller: Controller, files: JobFiles) -> None:
        self._controller = controller
        self._files = files
        self._shown: dict[Listener, frozenset[JobId]] = {}
        self._listeners: dict[JobId, set[Listener]] = defaultdict(set)
        self._watched: dict[JobId, tuple[int, ExitStack]] = {}
        self._written: dict[Listener, set[tuple[Area, JobId]]] = defaultdict(set)
        self._something = asyncio.Event()

    def shows(self, listener: Listener) -> None:
        """A listener begins, or shows other jobs now. Whatever it shows may have written meanwhile."""
        before = self._shown.get(listener, frozenset())
        now = frozenset(JobId(id) for id in (listener.view and listener.shown) or ())
        self._shown[listener] = now
        for job in now - before:
            self._listeners[job].add(listener)
        for job in before - now:
            self._listeners[job].discard(listener)
        for job in now ^ before:
            self.changed(job)
        for job in now:
            self._write([listener], job, *Area)

    def leaves(self, listener: Listener) -> None:
        for job in self._shown.pop(listener, ()):
            self._listeners[job].discard(listener)
            self.changed(job)
        self._written.pop(listener, None)

    def changed(self, id: JobId) -> None:
        """A job has another state, or other listeners: watch its latest attempt while it runs and is shown."""
        if not self._listeners.get(id):
            self._listeners.pop(id, None)
        job = self._controller.book.jobs.get(id) if id in self._listeners else None
        runs = job is not None and job.state.holds_gpus and bool(job.attempts)
        attempt = job.attempts[-1].number if job is not None and runs else None
        watched = self._watched.get(id)
        if watched is not None and watched[0] != attempt:
            self._watched.pop(id)[1].close()
        if job is not None and attempt is not None and id not in self._watched:
            watching = ExitStack()
            watching.enter_context(self._files.watch(id, attempt, len(job.placement), partial(self._wrote, id)))
            self._watched[id] = attempt, watching

    def close(self) -> None:
        for _, watching in self._watched.values():
            watching.close()
        self._watched.clear()

    async def tell(self) -> None:
        """Send listeners what has been written, as it happens."""
        while True:
            await self._something.wait()
            self._something.clear()
            for listener in list(self._written):
                if listener.closed:
                    self._written.pop(listener)
                elif not listener.live or listener.behind or listener.blocked:
                    self._something.set()  # it is told once it reads again
                elif mine := self._own(listener, self._written.pop(listener)):
                    listener.add(written(Event(id=0, at=0.0, kind="view.written", subject="", data=mine)))
                    listener.flush()
            await asyncio.sleep(TOGETHER)

    def _own(self, listener: Listener, found: Iterable[tuple[Area, JobId]]) -> dict[str, list[str]]:
        """Of what has been written, what the listener may read; empty if there is nothing."""
        access, book = listener.reader.access, self._controller.book
        told = ViewWritten()
        for area, id in sorted(found):
            job: Job | None = book.jobs.get(id)
            if job is not None and access.owns(job):
                (told.printed if area is Area.LOG else told.reported).append(id)
        return told.model_dump() if told.printed or told.reported else {}

    def _wrote(self, job: JobId, area: Area) -> None:
        self._write(self._listeners.get(job, ()), job, area)

    def _write(self, listeners: Iterable[Listener], job: JobId, *areas: Area) -> None:
        for listener in listeners:
            self._written[listener].update((area, job) for area in areas if area is not Area.CHECKPOINT)
            self._something.set()
