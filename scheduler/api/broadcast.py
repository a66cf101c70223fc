"""Sends events to every listener: the one place where events leave the scheduler.

What must hold:
- An event is serialised once for all listeners who may see the same, and written to each in a batch with the events
  around it.
- A listener that resumes after an event gets every later one exactly once. A listener that keeps a view of the pool may
  instead be told to reload it, where that is shorter.
- No listener delays another listener or a request: all work is done in slices of a few milliseconds.
- A closed stream costs nothing; a listener that does not read for a while is disconnected.
- No listener gets what it may not see, also when permissions change while the stream runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError

from scheduler.api.figures import Figures
from scheduler.api.gpufigures import LiveGpuFigures, Usage
from scheduler.api.listener import Listener
from scheduler.api.messages import Message, written
from scheduler.api.readers import Readers
from scheduler.api.recent import KEPT, Recent
from scheduler.api.slices import Slices
from scheduler.api.writing import Writing
from scheduler.model import JobId
from scheduler.schema import Event
from scheduler.store import JOB_DELETED, EventFilter, EventRecord, JobFilter

if TYPE_CHECKING:
    from scheduler.api.access import Access, Caller
    from scheduler.controller import Controller
    from scheduler.engines.files import JobFiles
    from scheduler.model import Job

log = logging.getLogger("runai.api")

TOGETHER = 0.01
"""Events within this many seconds after a batch are written together."""

QUIET, VIEW_QUIET = 5.0, 15.0
"""Seconds of silence after which a listener (one with a view) is sent a comment, to detect closed connections."""

PATIENCE = 30.0
"""A listener that has not read for this many seconds is disconnected."""

AFTER_FAULT = 1.0

CARE = 1.0
"""How often, in seconds, that is checked."""

CHECK_EVERY, CHECKS, ASKING = 30.0, 25, 10
"""Seconds until permissions are checked again; the most checks a second, and at the same time."""

PERIODS, SPARED, RATE, AT_ONCE = (0.1, 0.5), 24, 1500, 200
"""After figures were sent, this many times as long passes until the next ones, within this range in seconds; they are
sent to at most this many listeners a second after the first ones."""

REASONS = 200
"""The most reasons a second for listeners without a view, each with the whole view of its job."""

PAGE, SPAN = 100, 10_000
"""For a listener that catches up: the events in a page, and the events of the store that are searched for one."""

READING = 2
"""The most listeners that read the store at the same time."""

MESSAGES = 2000
"""The number of recent messages in memory, for listeners that reconnect soon."""

ANEW = 300
"""A listener that keeps a view and missed more events than this is told to reload it."""


class Broadcast:
    """Watches the controller, and ends every stream when that ends. `access` returns what a caller may see now."""

    def __init__(
        self,
        controller: Controller,
        files: JobFiles,
        usage: Usage,
        access: Callable[[Caller], Access],
        clock: Callable[[], float],
    ) -> None:
        self._controller = controller
        self._writing = Writing(controller, files)
        self._clock = clock
        self._figures = Figures(controller, clock)
        self._readers = Readers(access, self._figures.next_number)
        self._recent = Recent(controller.book.last_event)
        self._listeners: dict[str, Listener] = {}
        self._happened: deque[tuple[EventRecord, Job | None]] = deque()
        self._something = asyncio.Event()
        self._outlook = asyncio.Event()
        self._pool = controller.book.pool
        self._messages: dict[int, Message] = {}
        self._allowance = Allowance(REASONS)
        self._reading = asyncio.Semaphore(READING)
        self._asking = asyncio.Semaphore(ASKING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._run(self._remember())
        gpu_figures = LiveGpuFigures(controller, usage, self._listeners)
        for work in (self._tell, self._show, self._look_after, self._check, self._writing.tell, gpu_figures.tell):
            self._run(self._forever(work))
        controller.watch(self)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forever(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """One error must not stop all streams."""
        while True:
            try:
                await work()
            except Exception:
                log.exception("Telling listeners failed; going on.")
                await asyncio.sleep(AFTER_FAULT)

    def __len__(self) -> int:
        return len(self._listeners)

    # -- listeners ----------------------------------------------------------------------------------------

    def add(self, listener: Listener, caller: Caller, after: int | None) -> None:
        """Send this listener the events after one, then new ones; only new ones where it is `None`."""
        self._readers.enter(listener, caller)
        self._listeners[listener.id] = listener
        if after is None:
            self._begin(listener)
        else:
            self._run(self._catch_up(listener, after, resumes=True))

    def remove(self, listener: Listener) -> None:
        """Its stream has ended."""
        if self._listeners.pop(listener.id, None) is not None:
            self._readers.leave(listener)
            self._writing.leaves(listener)

    def find(self, id: str, caller: Caller) -> Listener | None:
        """A caller's own listener."""
        found = self._listeners.get(id)
        return found if found is not None and found.reader.access.caller.name == caller.name else None

    def shows(self, listener: Listener, jobs: Sequence[str]) -> None:
        """A listener shows these jobs from now on."""
        listener.added = frozenset(jobs).difference(listener.shown or ())
        listener.shown = tuple(jobs)
        self._writing.shows(listener)
        self._outlook.set()

    # -- notifications of the controller ------------------------------------------------------------------------

    def happened(self, events: Sequence[EventRecord]) -> None:
        self._recent.add(events)
        for event in events:
            if event.kind == JOB_DELETED:
                self._messages.clear()
            job = self._controller.book.find(JobId(event.subject)) if event.kind.startswith("job.") else None
            self._happened.append((event, job))
            self._figures.forget(JobId(event.subject))
            self._writing.changed(JobId(event.subject))
        self._something.set()
        self._outlook.set()

    def decided(self) -> None:
        self._outlook.set()

    def ended(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._writing.close()
        for listener in list(self._listeners.values()):
            listener.close(whole=True)

    # -- events -------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        """Write events as they happen."""
        slices = Slices()
        while True:
            await self._something.wait()
            self._something.clear()
            if self._pool is not self._controller.book.pool:
                self._look_again()
            touched: dict[Listener, None] = {}
            while self._happened:
                message = self._message(*self._happened.popleft())
                for listener in self._readers.listeners_of(message.record):
                    if _tell(listener, message):
                        touched[listener] = None
                    if slices.over:
                        await slices.rest()
            for listener in touched:
                listener.flush()
                if slices.over:
                    await slices.rest()
            await asyncio.sleep(TOGETHER)

    def _message(self, record: EventRecord, job: Job | None) -> Message:
        found = self._messages.get(record.id)
        if found is None:
            if len(self._messages) >= MESSAGES:
                del self._messages[next(iter(self._messages))]
            found = self._messages[record.id] = Message(
                record, job, self._controller.book, self._controller.session_grant
            )
        return found

    def _look_again(self) -> None:
        """The pool has changed: update what each listener may see before anything else is sent."""
        self._pool = self._controller.book.pool
        for reader in self._readers:
            self._readers.look_again(reader)

    # -- catching up -------------------------------------------------------------------------------------

    async def _remember(self) -> None:
        """Load the latest events from before the start into memory, for listeners that reconnect after a restart."""
        since = max(0, self._recent.since - KEPT)
        self._recent.before(await self._controller.past_events(since, KEPT), since)

    def _begin(self, listener: Listener) -> None:
        """Send a listener new events from now on."""
        listener.begin(self._recent.last)
        if listener.view:
            listener.seen = 0
            listener.add(self._begins(listener, resumed=False))
        self._join(listener)

    def _begins(self, listener: Listener, *, resumed: bool) -> bytes:
        data = {"resumed": resumed, "heartbeat": VIEW_QUIET}
        event = Event(id=listener.told, at=self._clock(), kind="stream.begin", subject=listener.id, data=data)
        return written(event, id=event.id)

    def _join(self, listener: Listener) -> None:
        listener.live = True
        self._writing.shows(listener)
        self._show_to(listener)

    async def _catch_up(self, listener: Listener, after: int, *, resumes: bool) -> None:
        """Send a listener the events after one, in pages and no faster than it reads, until it is live.

        `resumes`: it has just reconnected.
        """
        listener.live = False
        listener.begin(after)
        try:
            if resumes and listener.view and self._misses_few(listener):
                await listener.send([self._begins(listener, resumed=True)])
            while listener.told < self._recent.last:
                if listener.view and not self._misses_few(listener):
                    return self._begin(listener)
                records, upto = await self._missed(listener)
                pieces = [message.text(listener.reader.access) for message in await self._messages_of(records)]
                if pieces:
                    await listener.send(pieces)
                listener.begin(upto)
            self._join(listener)
        except StreamClosedError:
            listener.close()

    def _misses_few(self, listener: Listener) -> bool:
        found = self._recent.after(listener.told, listener.reader.access, listener.subject)
        return found is not None and len(found) <= ANEW

    async def _missed(self, listener: Listener) -> tuple[Sequence[EventRecord], int]:
        """The next page of what a listener missed, and the last event that it covers."""
        after, access, last = listener.told, listener.reader.access, self._recent.last
        found = self._recent.after(after, access, listener.subject)
        if found is None:
            wanted = EventFilter(listener.subject)
            if listener.subject is None:
                last = min(after + SPAN, last)
            if not access.caller.admin:
                wanted = replace(wanted, user=access.caller.name, projects=access.seen_projects)
            async with self._reading:
                if listener.closed:
                    raise StreamClosedError
                found = await self._controller.past_events(after, PAGE, wanted=wanted, until=last)
        page = found[:PAGE]
        return page, page[-1].id if len(page) == PAGE else last

    async def _messages_of(self, records: Sequence[EventRecord]) -> list[Message]:
        """Jobs that have ended are read together."""
        subjects = {JobId(record.subject) for record in records if record.kind.startswith("job.")}
        found = {id: job for id in subjects if (job := self._controller.book.find(id))}
        if missing := subjects - found.keys():
            for job in await self._controller.jobs(JobFilter(ids=missing), limit=len(missing)):
                found[job.id] = job
        return [self._message(record, found.get(JobId(record.subject))) for record in records]

    # -- figures ------------------------------------------------------------------------------------------

    async def _show(self) -> None:
        """Send listeners the current figures of what they show, in rounds: one after each change."""
        slices, loop = Slices(), asyncio.get_running_loop()
        while True:
            await self._outlook.wait()
            self._outlook.clear()
            began = loop.time()
            self._figures.renew()
            for number, listener in enumerate(list(self._listeners.values())):
                await self._figures.prepare(listener, slices)
                self._show_to(listener)
                if (early := began + (number - AT_ONCE) / RATE - loop.time()) > TOGETHER:
                    await asyncio.sleep(early)
                if slices.over:
                    await slices.rest()
            at_least, at_most = PERIODS
            await asyncio.sleep(min(max(at_least, SPARED * (loop.time() - began)), at_most))

    def _show_to(self, listener: Listener) -> None:
        if not listener.live or listener.blocked or listener.behind or listener.closed:
            return
        pieces: list[bytes] = []
        if listener.view:
            pieces += self._figures.view(listener)
        elif (allowed := self._allowance.left()) >= 1:
            pieces += islice(self._figures.reasons(listener), int(allowed))
            self._allowance.take(len(pieces))
        for piece in pieces:
            listener.add(piece)
        listener.flush()

    # -- maintenance ---------------------------------------------------------------------------------------------

    async def _look_after(self) -> None:
        """Send heartbeats; disconnect listeners that do not read, and let those catch up that read again."""
        slices, loop = Slices(), asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CARE)
            for listener in list(self._listeners.values()):
                quiet = loop.time() - listener.since
                if listener.blocked:
                    if quiet > PATIENCE:
                        listener.close()
                elif listener.behind and listener.live:
                    self._run(self._catch_up(listener, listener.sent, resumes=False))
                elif quiet >= (VIEW_QUIET if listener.view else QUIET):
                    listener.beat()
                if slices.over:
                    await slices.rest()

    async def _check(self) -> None:
        """Check the permissions of the listeners again, one after the other."""
        while True:
            for listener in [*self._listeners.values(), None]:
                await asyncio.sleep(max(1 / CHECKS, CHECK_EVERY / (1 + len(self._listeners))))
                if listener is not None and not listener.closed:
                    await self._asking.acquire()
                    self._run(self._check_one(listener))

    async def _check_one(self, listener: Listener) -> None:
        try:
            caller = await listener.identify()
        except Exception:
            log.warning("A listener cannot be identified again; its stream ends.", exc_info=True)
            caller = None
        finally:
            self._asking.release()
        if caller is None:
            listener.close(whole=True)
        elif listener.id in self._listeners and caller != listener.reader.access.caller:
            self._readers.leave(listener)
            self._readers.enter(listener, caller)


def _tell(listener: Listener, message: Message) -> bool:
    """Queue a message; whether there is something to write."""
    if listener.view and message.record.kind.startswith("project."):
        return listener.tell(None, message.record.id)  # the pool has changed at the same time
    return listener.tell(message.text(listener.reader.access), message.record.id)


class Allowance:
    """A rate limit without a burst allowance."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._left, self._at = rate, time.monotonic()

    def left(self) -> float:
        now = time.monotonic()
        self._left, self._at = min(self._rate, self._left + (now - self._at) * self._rate), now
        return self._left

    def take(self, count: int) -> None:
        self._left -= count
