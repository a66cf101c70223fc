"""Durable state: what was acknowledged is on disk, and survives `kill -9` of anything at any instant.

SQLite by default, PostgreSQL for a team, through the same code. What must hold: a change is written as a whole or not
at all; changes become durable in the order in which they were submitted; events are never changed, their ids increase
by one, and each is in the transaction of its change; two schedulers never share a state.
"""

from __future__ import annotations

from scheduler.store.accounting import UsageRecord, UsageSum, WantedUsage
from scheduler.store.database import Loaded, Store
from scheduler.store.filter import EVERY_EVENT, EVERY_JOB, AuditFilter, EventFilter, JobFilter
from scheduler.store.joborder import NEWEST, JobOrder
from scheduler.store.lock import StateLock
from scheduler.store.poolhistory import PoolRecord
from scheduler.store.records import JOB_DELETED, AuditRecord, ChangeSet, EventRecord

__all__ = [
    "EVERY_EVENT",
    "EVERY_JOB",
    "JOB_DELETED",
    "NEWEST",
    "AuditFilter",
    "AuditRecord",
    "ChangeSet",
    "EventFilter",
    "EventRecord",
    "JobFilter",
    "JobOrder",
    "Loaded",
    "PoolRecord",
    "StateLock",
    "Store",
    "UsageRecord",
    "UsageSum",
    "WantedUsage",
]
