"""The tables, as the latest migration leaves them (a test compares the two).

What is queried has a column; everything else is a document: JSON in the shape of its type in the model, read back
through the same type. A new field of such a type needs a default; then old documents need no migration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeDecorator

from scheduler.model import Avoided, GroupName, NoticeBox, Pool, Program, Request, Schedule, WorkerPlacement

T = TypeVar("T")


class Document(TypeDecorator[T], Generic[T]):
    """A value stored as JSON text."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind
        self._adapter: TypeAdapter[T] = TypeAdapter(kind)

    def process_bind_param(self, value: T | None, dialect: Dialect) -> str | None:
        return None if value is None else self._adapter.dump_json(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> T | None:
        return None if value is None else self._adapter.validate_json(value)


# Ids are compared byte by byte everywhere, so that a page ends at the same place on every database.
Id = Text().with_variant(Text(collation="C"), "postgresql")
EventId = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()

jobs = Table(
    "jobs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("wanted", Text),
    Column("submitted", Double, nullable=False),
    Column("queued", Double, nullable=False),
    Column("checkpointed", Double),
    Column("ended", Double),
    Column("idempotency_key", Text),
    Column("started", Double),
    Column("gpus", BigInteger, nullable=False, server_default="0"),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("request", Document[Request](Request), nullable=False),
    Column("program", Document[Program](Program), nullable=False),
    Column(
        "nomination",
        Document[tuple[WorkerPlacement, ...]](tuple[WorkerPlacement, ...]),
        nullable=False,
        server_default="[]",
    ),
    Column("avoids", Document[tuple[Avoided, ...]](tuple[Avoided, ...]), nullable=False, server_default="[]"),
    Column("schedule", Id),
    UniqueConstraint("user", "idempotency_key", name="jobs_once"),
    Index("jobs_newest", "submitted", "id"),
    Index("jobs_by_project", "project", "submitted", "id"),
    Index("jobs_by_user", "user", "submitted", "id"),
    Index(
        "jobs_by_schedule",
        "schedule",
        "submitted",
        "id",
        sqlite_where=text("schedule IS NOT NULL"),
        postgresql_where=text("schedule IS NOT NULL"),
    ),
    Index(
        "jobs_unfinished",
        "submitted",
        "id",
        sqlite_where=text("ended IS NULL"),
        postgresql_where=text("ended IS NULL"),
    ),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job", Id, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("created", Double, nullable=False),
    Column("started", Double),
    Column("stopping", Double),
    Column("ended", Double),
    Column("ending", Text),
    Column("reason", Text, nullable=False),
    Column("error_excerpt", Text, nullable=False, server_default=""),
    Column("gpu_type", Text),
    Column("throughput", Double),
    Column("fault", Text),
    Column("exit_codes", Document[tuple[int | None, ...]](tuple[int | None, ...]), nullable=False),
    Column("placement", Document[tuple[WorkerPlacement, ...]](tuple[WorkerPlacement, ...]), nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("user", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("requested", Double, nullable=False),
    Column("started", Double),
    Column("ended", Double),
    Column("request", Document[Request](Request), nullable=False),
    Column("placement", Document[tuple[WorkerPlacement, ...]](tuple[WorkerPlacement, ...]), nullable=False),
    Column("placed", Double),
    Column(
        "claim",
        Document[tuple[WorkerPlacement, ...]](tuple[WorkerPlacement, ...]),
        nullable=False,
        server_default="[]",
    ),
    Column("recalled", Double),
    Column("groups", Document[tuple[GroupName, ...]](tuple[GroupName, ...]), nullable=False, server_default="[]"),
    Index("sessions_open", "id", sqlite_where=text("ended IS NULL"), postgresql_where=text("ended IS NULL")),
)

schedules = Table(
    "schedules",
    metadata,
    Column("id", Id, primary_key=True),
    Column("schedule", Document[Schedule](Schedule), nullable=False),
)

notice_boxes = Table(
    "notice_boxes",
    metadata,
    Column("user", Text, primary_key=True),
    Column("box", Document[NoticeBox](NoticeBox), nullable=False),
)

noticed = Table(
    "noticed",
    metadata,
    Column("only", Integer, primary_key=True, autoincrement=False),
    Column("event", EventId, nullable=False),
)

pool = Table(
    "pool",
    metadata,
    Column("only", Integer, primary_key=True, autoincrement=False),
    Column("pool", Document[Pool](Pool), nullable=False),
)

usage = Table(
    "project_usage",
    metadata,
    Column("project", Text, primary_key=True),
    Column("average", Double, nullable=False),
    Column("held", Integer, nullable=False),
    Column("at", Double, nullable=False),
)

identity = Table("identity", metadata, Column("id", Text, primary_key=True))

events = Table(
    "events",
    metadata,
    Column("id", EventId, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("user", Text),
    Column("project", Text),
    Column("data", Document[Mapping[str, Any]](dict[str, Any])),
    Index("events_by_subject", "subject"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", EventId, primary_key=True),
    Column("at", Double, nullable=False),
    Column("user", Text),
    Column("action", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("before", Document[Mapping[str, Any]](dict[str, Any])),
    Column("after", Document[Mapping[str, Any]](dict[str, Any])),
)

accounting = Table(
    "accounting",
    metadata,
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("seconds", Integer, primary_key=True, autoincrement=False),
    Column("environment", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("user", Text, primary_key=True),
    Column("gpu_type", Text, primary_key=True),
    Column("held", Double, nullable=False),
    Column("measured", Double, nullable=False),
    Column("idle", Double, nullable=False),
    Column("starts", Integer, nullable=False),
    Column("wait", Double, nullable=False),
    Column("longest_wait", Double, nullable=False),
    Column("reclaims", Integer, nullable=False),
    Column("lost", Double, nullable=False),
)

pool_history = Table(
    "pool_history",
    metadata,
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("seconds", Integer, primary_key=True, autoincrement=False),
    Column("observed", Double, nullable=False),
    Column("held", Double, nullable=False),
    Column("measured", Double, nullable=False),
    Column("idle", Double, nullable=False),
    Column("queued", Double),
    Column("starts", Integer, nullable=False),
    Column("wait", Double, nullable=False),
    Column("longest_wait", Double, nullable=False),
)

accounted = Table(
    "accounted",
    metadata,
    Column("only", Integer, primary_key=True, autoincrement=False),
    Column("until", Double, nullable=False),
)
