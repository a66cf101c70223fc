"""Changes on their way to the disk, and the two books: what is durable, and what will be.

Changes are put into `decided` at once, so that the next decision knows of them, and become durable in that order. Only
then does `book` take them over, is anybody told, and is what they demand done.

Where a change can't be written, it and all behind it are refused, since they may build on it; `decided` is forgotten,
and after a moment everything starts over from the durable state (`resync`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from scheduler.controller import accounting, usage
from scheduler.controller.book import Book
from scheduler.controller.feed import Feed
from scheduler.controller.runtimes import REMEMBERED
from scheduler.errors import RunaiError
from scheduler.model import JobId, JobState, Node, ProjectUsage
from scheduler.store import ChangeSet, EventRecord, JobFilter, Store

log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds before writing is tried again after it failed."""

TOGETHER = 1_000
"""So many jobs are looked at in one go."""

Then = Callable[[], None]
Written = asyncio.Future[tuple[EventRecord, ...]]


class StateWriter:
    """`lost` is set when the state has become somebody else's; this process must end then. `trouble` is why nothing can
    be written now, if so."""

    def __init__(self, store: Store, resync: Then) -> None:
        self.book = Book()
        self.decided = Book()
        self.feed = Feed(store.events, 0)
        self.lost = asyncio.Event()
        self.trouble: RunaiError | None = None
        self.store_id = ""
        self._store = store
        self._resync = resync
        self._mending: asyncio.TimerHandle | None = None
        self._closed = False
        self._writing = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def open(self) -> None:
        """Read what is durable."""
        loaded = await asyncio.to_thread(self._store.load)
        self.book = Book(loaded.pool)
        self.store_id = loaded.id
        over = {state for state in JobState if state.final}
        for job in reversed(await self._store.jobs(JobFilter(states=over), limit=REMEMBERED)):
            self.book.run_times.learn(job)
        # What a version without usage has left running counts from its start.
        half_life, known = self.book.pool.settings.usage_half_life, {used.project for used in loaded.usage}
        others = [job for job in loaded.jobs if job.request.project not in known]
        counted = (*loaded.usage, *usage.after({}, {}, others, half_life).values())
        self.book.put(ChangeSet(jobs=loaded.jobs, sessions=loaded.sessions, usage=counted))
        self.book.last_event = loaded.last_event
        self.book.accounted_until = loaded.accounted_until
        self.decided = self.book.copy()
        self.feed = Feed(self._store.events, loaded.last_event)

    def close(self) -> None:
        self._closed = True
        self.feed.close()
        if self._mending is not None:
            self._mending.cancel()

    def commit(self, change: ChangeSet, *then: Then) -> Written:
        """Decide a change. `then` is done once it is durable, even if nobody waits for that any more."""
        change = replace(
            change,
            usage=(*change.usage, *self._usage_after(change)),
            accounted=(*change.accounted, *accounting.after(self.decided, change)),
        )
        self.decided.put(change)
        self._writing += 1
        self._idle.clear()
        written = self._store.write(change)
        written.add_done_callback(partial(self._written, change, then))
        return written

    def _usage_after(self, change: ChangeSet) -> Iterable[ProjectUsage]:
        decided = self.decided
        half_life = decided.pool.settings.usage_half_life
        return usage.after(decided.usage, decided.jobs, change.jobs, half_life).values()

    async def durable(self, written: Written | None = None) -> None:
        """Wait until a change is durable; without one, until everything that was decided until now is."""
        await asyncio.shield(self.commit(ChangeSet()) if written is None else written)

    @property
    def busy(self) -> bool:
        """Whether something is on its way to the disk, or will be tried again."""
        return not self._idle.is_set()

    async def idle(self) -> None:
        """Wait until nothing is on its way to the disk."""
        await self._idle.wait()

    def set_nodes(self, nodes: tuple[Node, ...]) -> None:
        """Nodes are looked at, not remembered, so they need no disk."""
        self.book.nodes = self.decided.nodes = self.book.run_times.residuals.mark(nodes)

    def _written(self, change: ChangeSet, then: tuple[Then, ...], written: Written) -> None:
        self._writing -= 1
        self._take_over(change, then, written)
        if not self._writing and self._mending is None:
            self._idle.set()

    def _take_over(self, change: ChangeSet, then: tuple[Then, ...], written: Written) -> None:
        error = written.exception()
        self.trouble = error if isinstance(error, RunaiError) else None
        if error is not None:
            self._mend_later()
            return
        self.book.put(change)
        slow = self.book.run_times.residuals.slow
        for job in change.jobs:
            if alike := self.book.run_times.learn(job):
                self._expect_alike(alike)
        if self.book.run_times.residuals.slow is not slow:
            self.set_nodes(self.book.nodes)
        events = written.result()
        if events:
            self.book.last_event = events[-1].id
            self.feed.tell(events)
        for do in then:
            do()

    def _expect_alike(self, alike: list[JobId]) -> None:
        """Jobs that are like one that has ended are expected to run as long; many of them bit by bit."""
        jobs = self.decided.jobs
        self.decided.put(ChangeSet(jobs=tuple([jobs[id] for id in alike[:TOGETHER] if id in jobs])))
        if len(alike) > TOGETHER:
            asyncio.get_running_loop().call_soon(self._expect_alike, alike[TOGETHER:])

    def _mend_later(self) -> None:
        if self._mending is None and not self._closed:
            log.warning("The state cannot be written; trying again in %g s.", PAUSE)
            self._mending = asyncio.get_running_loop().call_later(PAUSE, self._mend)

    def _mend(self) -> None:
        """Start over from the durable state and reject every decision made before this point."""
        self._mending = None
        if self._store.lost:
            log.critical("Another scheduler has taken over the state; this one must end.")
            self.lost.set()
            return
        self._store.mend()
        self.decided = self.book.copy()
        self.commit(ChangeSet(pool=self.book.pool))  # changes nothing; it tells whether writing works again
        self._resync()
