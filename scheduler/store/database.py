"""The store: opened and locked by one scheduler, written through one writer, read by anybody in that process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
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
    tuple_,
)
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, OperationalError

from scheduler.errors import Conflict, Invalid, Unavailable
from scheduler.model import Attempt, Job, JobId, Pool, Program, ProjectUsage, Session, SessionId
from scheduler.store import accounting, rows, schema, sqlite, tables
from scheduler.store.accounting import UsageSum, WantedUsage
from scheduler.store.filter import EVERY_EVENT, EVERY_JOB, AuditFilter, EventFilter, JobFilter
from scheduler.store.lock import StateLock
from scheduler.store.records import JOB_DELETED, AuditRecord, ChangeSet, EventRecord
from scheduler.store.writer import Writer, Written

T = TypeVar("T")

LET_GO = 2
"""Seconds that another scheduler's connection has to end, at the start."""

_LOCK_KEY = 0x72756E61
_LOCK_NOT_AVAILABLE = "55P03"
_END_HOLDERS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' "
    "AND classid = :key AND granted AND datname = current_database() AND application_name = :application"
)
_MANY = 500
"""How many ids one statement names."""

_WITH_KEY = select(tables.jobs.c.id).where(
    tables.jobs.c.user == bindparam("by"), tables.jobs.c.idempotency_key == bindparam("key")
)
"""Each submission asks this, so it is put together once."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a scheduler begins with: everything that is not over. `pool` is absent until one was applied.

    `id` is the store's own: another store, which counts its events from 1 as well, has another.
    """

    id: str
    pool: Pool | None
    jobs: tuple[Job, ...]
    sessions: tuple[Session, ...]
    usage: tuple[ProjectUsage, ...]
    last_event: int
    accounted_until: float


class Store:
    """`url` is SQLAlchemy's: `sqlite:////folder/runai.sqlite` or `postgresql://user@host/database`.

    Who has won an `election` ends the connection of whoever won it before, and may have lost it without having noticed.
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
        # Beside the file itself: whatever link leads a second scheduler to it leads to the same lock.
        self._lock = StateLock(Path(f"{self._file.resolve()}.lock")) if self._is_sqlite else None

    @property
    def _is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    @property
    def _file(self) -> Path:
        assert self._url.database is not None
        return Path(self._url.database)

    def open(self) -> None:
        """Take the state for this process and bring its schema up to date.

        Raises `Conflict` where another scheduler uses it or a newer one wrote it, `Unavailable` where it can't be
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
                self._last.check(self._writer.last_event)
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
        """Write what still waits, and let go."""
        self._writer.close()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()

    def abort(self) -> None:
        """Let go at once: what still waits is refused."""
        self._writer.abort()
        self.close()

    # -- writing ------------------------------------------------------------------------------------------

    def write(self, change: ChangeSet) -> Written:
        """Durable when it is awaited; changes become so in the order in which they were given.

        Raises `Unavailable` where that is impossible; every change given after that one is refused, too, until `mend`.
        """
        return self._writer.write(change)

    def mend(self) -> None:
        """Go on after a refused change: what is given from now on builds on what is durable alone."""
        self._writer.mend()

    @property
    def lost(self) -> bool:
        """True once the state belongs to somebody else: this process must begin anew."""
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
        """Hold the database as long as the connection lives; one that has just ended may take a moment to let go of
        it."""
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
        """Raises `Unavailable` where what is kept cannot be understood."""
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
            identity = connection.scalar(select(tables.identity.c.id))
            document = connection.scalar(select(tables.pool.c.pool))
            unfinished = _jobs(connection, tables.jobs.c.ended.is_(None))
            sessions = connection.execute(
                select(tables.sessions).where(tables.sessions.c.ended.is_(None)).order_by(tables.sessions.c.id)
            )
            return Loaded(
                id=str(identity),
                pool=document,
                jobs=tuple(sorted(unfinished, key=lambda job: (job.submitted, job.id))),
                sessions=tuple(rows.to_session(row) for row in sessions.mappings()),
                usage=tuple(ProjectUsage(**row) for row in connection.execute(select(tables.usage)).mappings()),
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

    async def jobs(self, wanted: JobFilter = EVERY_JOB, *, limit: int | None = 100) -> list[Job]:
        """Newest first, at most `limit` of them."""
        return await self._read(lambda connection: _jobs(connection, *_conditions(wanted), limit=limit))

    async def ended(self, before: float, after: tuple[float, str] | None, limit: int) -> list[Job]:
        """Jobs that ended before an instant, those submitted first before the others; `after` is the last one seen."""
        job = tables.jobs.c
        wanted = [job.submitted < before, job.ended < before]
        if after is not None:
            wanted.append(tuple_(job.submitted, job.id) > tuple_(*after))
        return await self._read(lambda connection: _jobs(connection, *wanted, limit=limit, newest_first=False))

    async def programs(self, after: str, limit: int) -> list[tuple[str, Program]]:
        """The ids of jobs and what they run, by id, from the one after `after` on."""
        job = tables.jobs.c
        query = select(job.id, job.program).where(job.id > after).order_by(job.id).limit(limit)
        return await self._read(lambda connection: [(row.id, row.program) for row in connection.execute(query)])

    async def deleted(self, jobs: Collection[JobId]) -> set[JobId]:
        """Those of these jobs that were there and have been deleted."""
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
        """Events with an id above `after`, and none above `until`, in their order."""
        conditions = [tables.events.c.id > after, *_of_interest(wanted)]
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

    async def _read(self, read: Callable[[Connection], T]) -> T:
        def in_thread() -> T:
            with self._engine.connect() as connection:
                return read(connection)

        try:
            return await asyncio.to_thread(in_thread)
        except OperationalError as error:
            cause = str(error.orig).strip().partition("\n")[0]
            raise Unavailable(f"The state could not be read ({cause}); try again.") from error


def _only(jobs: Sequence[Job]) -> Job | None:
    return jobs[0] if jobs else None


def _conditions(wanted: JobFilter) -> Iterator[ColumnElement[bool]]:
    """The jobs of an array are called `<array>-<index>`."""
    job = tables.jobs.c
    if wanted.ids is not None:
        yield job.id.in_(sorted(wanted.ids))
    if wanted.states is not None:
        yield job.state.in_(sorted(state.value for state in wanted.states))
    if wanted.project is not None:
        yield job.project == wanted.project
    if wanted.projects is not None:
        yield job.project.in_(sorted(wanted.projects))
    if wanted.user is not None:
        yield job.user == wanted.user
    if wanted.name is not None:
        yield job.name == wanted.name
    if wanted.array is not None:
        yield job.id.between(f"{wanted.array}-0", f"{wanted.array}-:")
    if wanted.before is not None:
        yield tuple_(job.submitted, job.id) < tuple_(*wanted.before)


def _of_interest(wanted: EventFilter) -> Iterator[ColumnElement[bool]]:
    event = tables.events.c
    if wanted.subject is not None:
        yield event.subject == wanted.subject
    concerned = []
    if wanted.user is not None:
        concerned.append(event.user == wanted.user)
    if wanted.projects is not None:
        concerned.append(event.project.in_(sorted(wanted.projects)))
    if concerned:
        yield or_(event.kind.like("pool.%"), event.kind.like("project.%"), *concerned)


def _jobs(
    connection: Connection,
    *wanted: ColumnElement[bool],
    limit: int | None = None,
    newest_first: bool = True,
) -> list[Job]:
    """Jobs with their attempts."""
    job = tables.jobs.c
    order = (job.submitted.desc(), job.id.desc()) if newest_first else (job.submitted, job.id)
    query = select(tables.jobs).where(*wanted).order_by(*order).limit(limit)
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
