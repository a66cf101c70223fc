"""Writes changes to the disk, and keeps two books: what is durable, and what will be.

Changes are applied to `decided` at once, so that the next decision includes them, and become durable in that order.
Only then are they applied to `book`, published and carried out.

If a change cannot be written, it and all later ones are refused, since they may depend on it; `decided` is discarded,
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
"""Seconds before writing is retried after a failure."""

TOGETHER = 1_000
"""The number of jobs that are processed in one step."""

Then = Callable[[], None]
Written = asyncio.Future[tuple[EventRecord, ...]]


class StateWriter:
    """`lost` is set when another scheduler owns the state; this process must end then. `trouble` is why the state
    cannot be written now, if so."""

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
        # Jobs that an earlier version without usage has started count from their start.
        half_life, known = self.book.pool.settings.usage_half_life, {used.project for used in loaded.usage}
        others = [job for job in loaded.jobs if job.request.project not in known]
        counted = (*loaded.usage, *usage.after({}, {}, others, half_life).values())
        self.book.put(
            ChangeSet(
                jobs=loaded.jobs,
                sessions=loaded.sessions,
                schedules=loaded.schedules,
                notice_boxes=loaded.notice_boxes,
                noticed=loaded.last_event if loaded.noticed is None else loaded.noticed,
                usage=counted,
            )
        )
        self.book.before_events, self.book.last_event = loaded.before_events, loaded.last_event
        self.book.accounted_until = loaded.accounted_until
        self.decided = self.book.copy()
        self.feed = Feed(self._store.events, loaded.last_event)

    def close(self) -> None:
        self._closed = True
        self.feed.close()
        if self._mending is not None:
            self._mending.cancel()

    def commit(self, change: ChangeSet, *then: Then) -> Written:
        """Decide a change. `then` is called once it is durable, even if nobody waits for that."""
        charges = accounting.after(self.decided, change)
        change = replace(
            change,
            usage=(*change.usage, *self._usage_after(change)),
            accounted=(*change.accounted, *accounting.records(charges, self.decided.nodes)),
            history=(*change.history, *accounting.starts(charges)),
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
        """Wait until a change is durable; without one, until all changes so far are."""
        await asyncio.shield(self.commit(ChangeSet()) if written is None else written)

    @property
    def busy(self) -> bool:
        """Whether a change is being written or will be retried."""
        return not self._idle.is_set()

    async def idle(self) -> None:
        """Wait until no change is being written."""
        await self._idle.wait()

    def set_nodes(self, nodes: tuple[Node, ...]) -> bool:
        """Nodes are observed, not stored. Returns whether one is gone."""
        gone = {node.name for node in self.decided.nodes} - {node.name for node in nodes}
        self.book.nodes = self.decided.nodes = self.book.run_times.residuals.mark(nodes)
        return bool(gone)

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
        """Update the estimates of jobs like one that has ended, in steps."""
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
        self.commit(ChangeSet(pool=self.book.pool))  # a change without effect, to see whether writing works again
        self._resync()
