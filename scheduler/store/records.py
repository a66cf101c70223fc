"""The records that are written to the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.model import Job, JobId, NoticeBox, Pool, ProjectUsage, Schedule, ScheduleId, Session
from scheduler.store.accounting import UsageRecord
from scheduler.store.poolhistory import PoolRecord

JOB_DELETED = "job.deleted"
"""The kind of event that remains of a deleted job. It shows which leftover files may be deleted."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One entry of the append-only event log. `subject` is the id (or name) of what changed.

    `id` is 0 until the store has written the event.
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
    """One change of the pool and its author: `before` and `after` are the keys that differ. It is never deleted.

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
    """Changes that become durable together.

    `submitted` are new jobs, `jobs` are changed ones (of whose attempts only the latest may have changed). `usage` is
    the usage of the projects for which it has changed. `deleted` are jobs that are deleted with their events; events up
    to the id `outdated` are deleted, too. `schedules` and `notice_boxes` are new or changed, `removed` are deleted
    schedules. Notices have been made of all events up to the id `noticed`.

    `accounted` is added to the record of use, which is then complete until `accounted_until`, and `history` to that of
    the pool as a whole; both records are condensed as of the instant `condensed`.
    """

    submitted: tuple[Job, ...] = ()
    jobs: tuple[Job, ...] = ()
    sessions: tuple[Session, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    removed: tuple[ScheduleId, ...] = ()
    notice_boxes: tuple[NoticeBox, ...] = ()
    noticed: int | None = None
    pool: Pool | None = None
    usage: tuple[ProjectUsage, ...] = ()
    events: tuple[EventRecord, ...] = ()
    audit: tuple[AuditRecord, ...] = ()
    deleted: tuple[JobId, ...] = ()
    outdated: int = 0
    accounted: tuple[UsageRecord, ...] = ()
    accounted_until: float | None = None
    history: tuple[PoolRecord, ...] = ()
    condensed: float | None = None
