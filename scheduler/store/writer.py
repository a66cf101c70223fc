"""The only writer: a thread that combines pending changes into one transaction (group commit).

While one transaction waits for the disk the next one fills, so each change is durable at a fraction of the cost.
Changes become durable in the order of the calls. A later change may depend on an earlier one, so when one cannot be
written, all later ones are refused, until the caller has started over from the durable state and calls `mend`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from queue import SimpleQueue

from sqlalchemy import Connection, Table, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, OperationalError

from scheduler.errors import RunaiError, Unavailable
from scheduler.store import accounting, poolhistory, rows, tables
from scheduler.store.records import ChangeSet, EventRecord

log = logging.getLogger(__name__)

TOGETHER = 2000
"""The most changes that share one transaction."""

A_SECOND = 10**6
"""The ids of events for each second from 1970 until the store was created. So a new store starts above all ids of an
older one, and ids stay below 2⁵³, which JavaScript needs."""

Written = asyncio.Future[tuple[EventRecord, ...]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    change: ChangeSet
    written: Written


_MEND = object()
_END = object()


class Writer:
    """`connect` returns a connection that only this thread writes through; it raises `Conflict` where another scheduler
    does.

    `note` is called with the last event after each transaction, once there is one.
    """

    def __init__(self, connect: Callable[[], Connection], note: Callable[[int], None] | None = None) -> None:
        self._connect = connect
        self._note = note
        self._connection: Connection | None = None
        self._queue: SimpleQueue[object] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="store writer", daemon=True)
        self._refused: RunaiError | None = None
        self.before_events = self.last_event = 0
        self.lost: RunaiError | None = None

    def open(self) -> None:
        self._connection = self._connect()
        first = self._connection.scalar(select(func.min(tables.events.c.id)))
        self.before_events = int(time.time() * A_SECOND) if first is None else first - 1
        self.last_event = self._find_last_event(self._connection)
        self._connection.rollback()
        self._thread.start()

    @property
    def has_events(self) -> bool:
        return self.last_event > self.before_events

    def close(self) -> None:
        """Write pending changes, then end."""
        if self._thread.is_alive():
            self._queue.put(_END)
            self._thread.join()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def abort(self) -> None:
        """Refuse pending changes, then end."""
        self._refused = Unavailable("The scheduler has ended.")
        self.close()

    def write(self, change: ChangeSet) -> Written:
        """Must be called in an event loop; the future has the change's events with their ids, or a `RunaiError`."""
        written: Written = asyncio.get_running_loop().create_future()
        self._queue.put(_Waiting(change, written))
        return written

    def mend(self) -> None:
        """Accept changes again: the caller guarantees that they do not depend on refused ones."""
        self._queue.put(_MEND)

    # -- in the thread ------------------------------------------------------------------------------------

    def _work(self) -> None:
        mark: object = None
        while mark is not _END:
            batch, mark = self._gather()
            if batch:
                self._settle(batch)
            if mark is _MEND:
                self._refused = self.lost

    def _gather(self) -> tuple[list[_Waiting], object]:
        """Wait for a change; then take all pending ones, up to a mark."""
        batch: list[_Waiting] = []
        item = self._queue.get()
        while isinstance(item, _Waiting):
            batch.append(item)
            if len(batch) == TOGETHER or self._queue.empty():
                return batch, None
            item = self._queue.get()
        return batch, item

    def _settle(self, batch: Sequence[_Waiting]) -> None:
        """Write a batch and resolve its futures."""
        outcome: list[tuple[EventRecord, ...]] | RunaiError
        if self._refused is None:
            try:
                outcome = self._write([waiting.change for waiting in batch])
            except Exception as error:
                outcome = self._refused = self._give_up(error)
        else:
            outcome = self._refused
        try:
            batch[0].written.get_loop().call_soon_threadsafe(_tell, batch, outcome)
        except RuntimeError:
            log.debug("The event loop has ended; %d changes are not acknowledged.", len(batch))

    def _write(self, changes: Sequence[ChangeSet]) -> list[tuple[EventRecord, ...]]:
        connection = self._connection or self._reconnect()
        last = self.last_event
        recorded: list[tuple[EventRecord, ...]] = []
        for change in changes:
            recorded.append(tuple(replace(e, id=last + n) for n, e in enumerate(change.events, 1)))
            last += len(change.events)
        with connection.begin():
            _put(connection, changes, [event for events in recorded for event in events])
        self.last_event = last
        if self._note is not None and self.has_events:
            self._note(last)
        return recorded

    def _reconnect(self) -> Connection:
        """A new connection, if the state is unchanged: a commit whose answer was lost, or another scheduler's, is
        detected."""
        connection = self._connect()
        found = self._find_last_event(connection)
        connection.rollback()
        if found != self.last_event:
            connection.close()
            self.lost = Unavailable("Another process has changed the state; restart the scheduler.")
            raise self.lost
        self._connection = connection
        return connection

    def _find_last_event(self, connection: Connection) -> int:
        """The id of the last event; where there is none yet, the number before the first one."""
        return connection.scalar(select(func.max(tables.events.c.id))) or self.before_events

    def _give_up(self, error: Exception) -> RunaiError:
        known = isinstance(error, RunaiError | OperationalError)
        log.error("A change could not be written: %s", _cause(error), exc_info=None if known else error)
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None
        if isinstance(error, RunaiError):
            return error
        return Unavailable(f"The change could not be written ({_cause(error)}); nothing was changed, try again.")


def _cause(error: Exception) -> str:
    return str(error.orig if isinstance(error, DBAPIError) else error).strip().partition("\n")[0]


def _tell(batch: Sequence[_Waiting], outcome: Sequence[tuple[EventRecord, ...]] | RunaiError) -> None:
    for n, waiting in enumerate(batch):
        if waiting.written.done():
            continue
        if isinstance(outcome, RunaiError):
            waiting.written.set_exception(outcome)
        else:
            waiting.written.set_result(outcome[n])


# -- statements -------------------------------------------------------------------------------------------------


def _put(connection: Connection, changes: Sequence[ChangeSet], events: Sequence[EventRecord]) -> None:
    """Write all changes in order, in few statements: of several changes of one row only the last is written."""
    submitted = [rows.of_job(job) for change in changes for job in change.submitted]
    standing = {job.id: job for change in changes for job in change.jobs}
    attempts = {
        (job.id, attempt.number): rows.of_attempt(job.id, attempt)
        for change in changes
        for job in change.jobs
        if (attempt := job.attempt)
    }
    sessions = {session.id: rows.of_session(session) for change in changes for session in change.sessions}
    schedules = {
        schedule.id: {"id": schedule.id, "schedule": schedule} for change in changes for schedule in change.schedules
    }
    boxes = {box.user: {"user": box.user, "box": box} for change in changes for box in change.notice_boxes}
    noticed = [change.noticed for change in changes if change.noticed is not None]
    usage = {used.project: asdict(used) for change in changes for used in change.usage}
    pools = [change.pool for change in changes if change.pool is not None]
    if submitted:
        connection.execute(insert(tables.jobs), submitted)
    if standing:
        connection.execute(_STANDING, [{"_id": job.id, **rows.of_standing(job)} for job in standing.values()])
    _upsert(connection, tables.attempts, list(attempts.values()))
    _upsert(connection, tables.sessions, list(sessions.values()))
    _upsert(connection, tables.schedules, list(schedules.values()))
    _upsert(connection, tables.notice_boxes, list(boxes.values()))
    _upsert(connection, tables.noticed, [{"only": 1, "event": event} for event in noticed[-1:]])
    _upsert(connection, tables.usage, list(usage.values()))
    _upsert(connection, tables.pool, [{"only": 1, "pool": pool} for pool in pools[-1:]])
    removed = [{"_id": schedule} for change in changes for schedule in change.removed]
    if removed:
        connection.execute(_REMOVE, removed)
    deleted = [{"_id": job} for change in changes for job in change.deleted]
    if deleted:
        connection.execute(_FORGET_EVENTS, deleted)
        connection.execute(_FORGET, deleted)
    outdated = max(change.outdated for change in changes)
    if outdated:
        connection.execute(delete(tables.events).where(tables.events.c.id <= outdated))
    accounting.add(connection, [record for change in changes for record in change.accounted])
    poolhistory.add(connection, [record for change in changes for record in change.history])
    if until := [change.accounted_until for change in changes if change.accounted_until is not None]:
        accounting.set_until(connection, until[-1])
    if due := [change.condensed for change in changes if change.condensed is not None]:
        accounting.condense(connection, due[-1])
        poolhistory.condense(connection, due[-1])
    audit = [rows.of_audit(record) for change in changes for record in change.audit]
    if audit:
        connection.execute(insert(tables.audit), audit)
    if events:
        connection.execute(insert(tables.events), [rows.of_event(event) for event in events])


_STANDING = (
    update(tables.jobs)
    .where(tables.jobs.c.id == bindparam("_id"))
    .values({name: bindparam(name) for name in rows.STANDING})
)


_FORGET = delete(tables.jobs).where(tables.jobs.c.id == bindparam("_id"))
_REMOVE = delete(tables.schedules).where(tables.schedules.c.id == bindparam("_id"))
_FORGET_EVENTS = delete(tables.events).where(
    tables.events.c.subject == bindparam("_id"), tables.events.c.kind.like("job.%")
)


def _upsert(connection: Connection, table: Table, values: Sequence[dict[str, object]]) -> None:
    if not values:
        return
    statement = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {name: statement.excluded[name] for name in values[0] if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), values)
