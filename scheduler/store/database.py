"""The store: opened and locked by one scheduler, written through one writer, read from anywhere in that process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    bindparam,
    create_engine,
    func,
    make_url,
    or_,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, OperationalError

from scheduler.errors import Conflict, Invalid, Unavailable
from scheduler.model import Attempt, Job, JobId, NoticeBox, Pool, Program, ProjectUsage, Schedule, Session, SessionId
from scheduler.store import accounting, poolhistory, rows, schema, sqlite, tables
from scheduler.store.accounting import UsageSum, WantedUsage
from scheduler.store.conditions import of_events, of_jobs
from scheduler.store.filter import EVERY_EVENT, EVERY_JOB, AuditFilter, EventFilter, JobFilter
from scheduler.store.joborder import NEWEST, JobOrder
from scheduler.store.lock import StateLock
from scheduler.store.poolhistory import PoolRecord
from scheduler.store.records import JOB_DELETED, AuditRecord, ChangeSet, EventRecord
from scheduler.store.writer import Writer, Written

T = TypeVar("T")

LET_GO = 2
"""Seconds that another scheduler's connection has to close, at start."""

_LOCK_KEY = 0x72756E61
_LOCK_NOT_AVAILABLE = "55P03"
_END_HOLDERS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' "
    "AND classid = :key AND granted AND datname = current_database() AND application_name = :application"
)
_MANY = 500
"""The most ids in one statement."""

_WITH_KEY = select(tables.jobs.c.id).where(
    tables.jobs.c.user == bindparam("by"), tables.jobs.c.idempotency_key == bindparam("key")
)
"""Each submission runs this query, so it is built once."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a scheduler starts with: everything unfinished. `pool` and `noticed` are absent until there is one.

    `id` identifies the store; `before_events` is a number below its events' ids, and not below those of an older store.
    """

    id: str
    pool: Pool | None
    jobs: tuple[Job, ...]
    sessions: tuple[Session, ...]
    schedules: tuple[Schedule, ...]
    notice_boxes: tuple[NoticeBox, ...]
    noticed: int | None
    usage: tuple[ProjectUsage, ...]
    before_events: int
    last_event: int
    accounted_until: float


class Store:
    """`url` is SQLAlchemy's: `sqlite:////folder/runai.sqlite` or `postgresql://user@host/database`.

    The winner of an `election` closes the connection of the previous winner, which may not have noticed.
    """

    def __init__(self, url: str, election: str = "") -> None:
        self._url = _understood(url)
        self._application = f"jupyter-runai {election}".strip()
        self._elected = bool(election)
        self._engine: Engine = (
            sqlite.make_engine(self._url) if self._is_sqlite else _postgresql(self._url, self._application)
        )
        self._last = sqlite.LastEvent(self._file) if self._is_sqlite else None
        self._writer = Writer(self._own_connection, self._last.note if self._last is not None else None)
        # Next to the file itself: a second scheduler that reaches it through a link finds the same lock.
        self._lock = StateLock(Path(f"{self._file.resolve()}.lock")) if self._is_sqlite else None

    @property
    def _is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    @property
    def _file(self) -> Path:
        assert self._url.database is not None
        return Path(self._url.database)

    def open(self) -> None:
        """Lock the state for this process and upgrade its schema.

        Raises `Conflict` where another scheduler uses it or a newer version wrote it, `Unavailable` where it cannot be
        reached or is damaged.
        """
        try:
            if self._lock is not None:
                self._lock.take()
                sqlite.prepare(self._file)
            if self._elected:
                self._end_predecessor()
            self._writer.open()
            if self._last is not None:
                self._last.check(self._writer.last_event if self._writer.has_events else None)
        except (DatabaseError, OSError) as error:
            self.close()
            cause = str(getattr(error, "orig", error)).strip().partition("\n")[0]
            if isinstance(error, DatabaseError) and sqlite.is_damage(error):
                raise sqlite.damaged(self._file, cause) from error
            raise Unavailable(f"The state at {self._url.render_as_string()} cannot be opened: {cause}.") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Write pending changes and release the state."""
        self._writer.close()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()

    def abort(self) -> None:
        """Release the state at once: pending changes are refused."""
        self._writer.abort()
        self.close()

    # -- writing ------------------------------------------------------------------------------------------

    def write(self, change: ChangeSet) -> Written:
        """Returns a future, done when the change is durable; changes become durable in the order of the calls.

        It raises `Unavailable` where that is impossible; every later change is refused, too, until `mend`.
        """
        return self._writer.write(change)

    def mend(self) -> None:
        """Continue after a refused change: later changes are based only on what is durable."""
        self._writer.mend()

    @property
    def lost(self) -> bool:
        """True once another scheduler owns the state: this process must restart."""
        return self._writer.lost is not None

    def _own_connection(self) -> Connection:
        connection = self._engine.connect()
        try:
            if not self._is_sqlite:
                self._take_database(connection)
            elif fault := sqlite.check(connection):
                raise sqlite.damaged(self._file, fault)
            schema.upgrade(connection)
            connection.commit()
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        return connection

    def _end_predecessor(self) -> None:
        with self._engine.connect() as connection:
            connection.execute(_END_HOLDERS, {"key": _LOCK_KEY, "application": self._application})

    def _take_database(self, connection: Connection) -> None:
        """Lock the database for the life of the connection; a scheduler that has ended may release it later."""
        connection.execute(text(f"SET lock_timeout = '{LET_GO}s'"))
        try:
            connection.execute(select(func.pg_advisory_lock(_LOCK_KEY, func.hashtext(func.current_schema()))))
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            raise Conflict(
                f"Another scheduler uses the database {self._url.database}; stop it first, or name another one."
            ) from error
        connection.execute(text("RESET lock_timeout"))
        connection.commit()

    # -- reading ------------------------------------------------------------------------------------------

    def load(self) -> Loaded:
        """Raises `Unavailable` where the stored data cannot be read."""
        try:
            return self._load()
        except (DatabaseError, ValueError, TypeError, LookupError) as error:
            cause = str(getattr(error, "orig", error)).strip().partition("\n")[0]
            if self._is_sqlite:
                raise sqlite.damaged(self._file, cause) from error
            raise Unavailable(
                f"The state at {self._url.render_as_string()} cannot be read ({cause}); restore it from a backup."
            ) from error

    def _load(self) -> Loaded:
        with self._engine.connect() as connection:
            document = connection.scalar(select(tables.pool.c.pool))
            unfinished = _jobs(connection, tables.jobs.c.ended.is_(None))
            sessions = connection.execute(
                select(tables.sessions).where(tables.sessions.c.ended.is_(None)).order_by(tables.sessions.c.id)
            )
            schedules = connection.scalars(select(tables.schedules.c.schedule).order_by(tables.schedules.c.id))
            return Loaded(
                id=str(connection.scalar(select(tables.identity.c.id))),
                pool=document,
                jobs=tuple(sorted(unfinished, key=lambda job: (job.submitted, job.id))),
                sessions=tuple(rows.to_session(row) for row in sessions.mappings()),
                schedules=tuple(schedules),
                notice_boxes=tuple(connection.scalars(select(tables.notice_boxes.c.box))),
                noticed=connection.scalar(select(tables.noticed.c.event)),
                usage=tuple(ProjectUsage(**row) for row in connection.execute(select(tables.usage)).mappings()),
                before_events=self._writer.before_events,
                last_event=self._writer.last_event,
                accounted_until=accounting.read_until(connection),
            )

    async def job(self, job_id: JobId) -> Job | None:
        return await self._read(lambda connection: _only(_jobs(connection, tables.jobs.c.id == job_id)))

    async def job_with_key(self, user: str, key: str) -> Job | None:
        """The job that a user submitted with an idempotency key."""

        def read(connection: Connection) -> Job | None:
            found = connection.scalar(_WITH_KEY, {"by": user, "key": key})
            return _only(_jobs(connection, tables.jobs.c.id == found)) if found is not None else None

        return await self._read(read)

    async def jobs(
        self, wanted: JobFilter = EVERY_JOB, order: JobOrder = NEWEST, *, limit: int | None = 100
    ) -> list[Job]:
        """At most `limit` of them."""
        conditions = (*of_jobs(wanted), *order.rest())
        return await self._read(lambda connection: _jobs(connection, *conditions, order=order, limit=limit))

    async def ended(self, before: float, after: tuple[float, str] | None, limit: int) -> list[Job]:
        """Jobs that ended before an instant, by time of submission; `after` is the last one of the previous page."""
        job, oldest = tables.jobs.c, JobOrder(descending=False, after=after)
        wanted = (job.submitted < before, job.ended < before, *oldest.rest())
        return await self._read(lambda connection: _jobs(connection, *wanted, order=oldest, limit=limit))

    async def recorded(self, since: float, until: float, limit: int) -> list[Job]:
        """The earliest jobs submitted before `until` that had not ended at `since`."""
        job, oldest = tables.jobs.c, JobOrder(descending=False)
        wanted = (job.submitted < until, or_(job.ended.is_(None), job.ended > since))
        return await self._read(lambda connection: _jobs(connection, *wanted, order=oldest, limit=limit))

    async def demanded(self, since: float, until: float) -> list[tuple[float, float | None, int]]:
        """When each of these jobs was submitted and ended, and the GPUs that it wants, in thousandths."""
        job = tables.jobs.c
        wanted = (job.submitted < until, or_(job.ended.is_(None), job.ended > since))
        query = select(job.submitted, job.ended, job.gpus).where(*wanted)
        return await self._read(lambda connection: [(row[0], row[1], row[2]) for row in connection.execute(query)])

    async def programs(self, after: str, limit: int) -> list[tuple[str, Program]]:
        """The ids and programs of jobs, by id, beginning after `after`."""
        job = tables.jobs.c
        query = select(job.id, job.program).where(job.id > after).order_by(job.id).limit(limit)
        return await self._read(lambda connection: [(row.id, row.program) for row in connection.execute(query)])

    async def deleted(self, jobs: Collection[JobId]) -> set[JobId]:
        """The jobs among these that existed and have been deleted."""
        event = tables.events.c
        query = select(event.subject).where(event.subject.in_(jobs), event.kind == JOB_DELETED)
        return await self._read(lambda connection: set(connection.scalars(query)))

    async def session(self, session_id: SessionId) -> Session | None:
        query = select(tables.sessions).where(tables.sessions.c.id == session_id)

        def read(connection: Connection) -> Session | None:
            row = connection.execute(query).mappings().one_or_none()
            return rows.to_session(row) if row else None

        return await self._read(read)

    async def events(
        self,
        after: int,
        limit: int = 1000,
        *,
        wanted: EventFilter = EVERY_EVENT,
        until: int | None = None,
    ) -> list[EventRecord]:
        """Events with an id above `after` and up to `until`, in order."""
        conditions = [tables.events.c.id > after, *of_events(wanted)]
        if until is not None:
            conditions.append(tables.events.c.id <= until)
        query = select(tables.events).where(*conditions).order_by(tables.events.c.id).limit(limit)

        def read(connection: Connection) -> list[EventRecord]:
            return [rows.to_event(row) for row in connection.execute(query).mappings()]

        return await self._read(read)

    async def audit(self, wanted: AuditFilter, *, limit: int) -> list[AuditRecord]:
        """Changes of the pool, newest first."""
        record = tables.audit.c
        given = ((record.user, wanted.user), (record.kind, wanted.kind), (record.name, wanted.name))
        conditions = [column == value for column, value in given if value is not None]
        if wanted.before is not None:
            conditions.append(record.id < wanted.before)
        query = select(tables.audit).where(*conditions).order_by(record.id.desc()).limit(limit)

        def read(connection: Connection) -> list[AuditRecord]:
            return [rows.to_audit(row) for row in connection.execute(query).mappings()]

        return await self._read(read)

    async def used(self, wanted: WantedUsage) -> list[UsageSum]:
        """The earliest periods first."""
        return await self._read(partial(accounting.read, wanted=wanted))

    async def pool_history(self, since: float, until: float, step: int) -> list[PoolRecord]:
        """The use of the pool in each period of `step` seconds, the earliest first."""
        return await self._read(partial(poolhistory.read, since=since, until=until, step=step))

    async def _read(self, read: Callable[[Connection], T]) -> T:
        def in_thread() -> T:
            with self._engine.connect() as connection:
                return read(connection)

        try:
            return await asyncio.to_thread(in_thread)
        except DatabaseError as error:
            if not isinstance(error, OperationalError) and not sqlite.is_damage(error):  # as a failing disk looks
                raise
            cause = str(error.orig).strip().partition("\n")[0]
            raise Unavailable(f"The state could not be read ({cause}); try again.") from error


def _only(jobs: Sequence[Job]) -> Job | None:
    return jobs[0] if jobs else None


def _jobs(
    connection: Connection,
    *wanted: ColumnElement[bool],
    order: JobOrder = NEWEST,
    limit: int | None = None,
) -> list[Job]:
    """Jobs with their attempts."""
    query = select(tables.jobs).where(*wanted).order_by(*order.columns()).limit(limit)
    found = connection.execute(query).mappings().all()
    attempts: dict[str, list[Attempt]] = {row["id"]: [] for row in found}
    ids = list(attempts)
    for start in range(0, len(ids), _MANY):
        some = tables.attempts.c.job.in_(ids[start : start + _MANY])
        query = select(tables.attempts).where(some).order_by(tables.attempts.c.job, tables.attempts.c.number)
        for row in connection.execute(query).mappings():
            attempts[row["job"]].append(rows.to_attempt(row))
    return [rows.to_job(row, tuple(attempts[row["id"]])) for row in found]


# -- engines ----------------------------------------------------------------------------------------------------


def _understood(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise Invalid(f"{url!r} is not a database address.", field="db_url") from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise Invalid(
            f"The store is SQLite or PostgreSQL, not {parsed.get_backend_name()}; use sqlite:///… or postgresql://….",
            field="db_url",
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise Invalid("The store needs a file in order to be durable: sqlite:////folder/runai.sqlite.", field="db_url")
    return parsed


def _postgresql(url: URL, application: str) -> Engine:
    try:
        named = {"application_name": application}
        return create_engine(url, isolation_level="REPEATABLE READ", connect_args=named)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise Invalid("PostgreSQL needs its driver: pip install 'jupyter-runai[postgres]'.", field="db_url") from None
