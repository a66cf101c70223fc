"""What is given to the store to be written, and what it tells of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.model import Job, JobId, Pool, ProjectUsage, Session
from scheduler.store.accounting import UsageRecord

JOB_DELETED = "job.deleted"
"""The kind of event that is all that is left of a deleted job. By it is known what files may go that are left of
one."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One line of the append-only record of what changed. `subject` is the id (or name) of what did.

    `id` counts from 1; it is 0 until the store has written the event.
    """

    at: float
    kind: str
    subject: str
    user: str | None = None
    project: str | None = None
    data: Mapping[str, Any] | None = None
    id: int = 0


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One change of the pool, and who made it: `before` and `after` are the keys that differ. It is kept for good.

    `user` is absent for the pool file that the service is started with. `id` counts from 1; it is 0 until the store has
    written the record.
    """

    at: float
    user: str | None
    action: str
    kind: str
    name: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    id: int = 0


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """What becomes durable together.

    `submitted` are new jobs, `jobs` are known ones as they are now (of whose attempts only the latest may have
    changed). `usage` is that of the projects of which it has changed. `deleted` are jobs that are forgotten with all
    that was told of them; events up to the one with the id `outdated` are, too.

    `accounted` is added to the record of what was used, which then has all that was held until `accounted_until`; the
    record is condensed as it is due at the instant `condensed`.
    """

    submitted: tuple[Job, ...] = ()
    jobs: tuple[Job, ...] = ()
    sessions: tuple[Session, ...] = ()
    pool: Pool | None = None
    usage: tuple[ProjectUsage, ...] = ()
    events: tuple[EventRecord, ...] = ()
    audit: tuple[AuditRecord, ...] = ()
    deleted: tuple[JobId, ...] = ()
    outdated: int = 0
    accounted: tuple[UsageRecord, ...] = ()
    accounted_until: float | None = None
    condensed: float | None = None
