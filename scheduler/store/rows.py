"""Converts the types of the model to rows and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from scheduler.model import Attempt, Ending, Fault, Job, JobId, JobState, Session, SessionId, SessionState
from scheduler.store.records import AuditRecord, EventRecord

Row = Mapping[Any, Any]


def of_job(job: Job) -> dict[str, Any]:
    """A new job's row."""
    return {
        "id": job.id,
        "name": job.name,
        "project": job.request.project,
        "user": job.user,
        "submitted": job.submitted,
        "idempotency_key": job.idempotency_key,
        "gpus": job.request.gpus,
        "schedule": job.schedule,
        "request": job.request,
        "program": job.program,
        **of_standing(job),
    }


STANDING = (
    "state",
    "reason",
    "wanted",
    "queued",
    "checkpointed",
    "started",
    "ended",
    "priority",
    "nomination",
    "avoids",
)
"""The columns of a job that change after its submission."""


def of_standing(job: Job) -> dict[str, Any]:
    """The values of `STANDING`."""
    return {
        "state": job.state.value,
        "reason": job.reason,
        "wanted": job.wanted and job.wanted.value,
        "queued": job.queued,
        "checkpointed": job.checkpointed,
        "started": job.attempts[0].started if job.attempts else None,
        "ended": job.ended,
        "priority": job.request.priority,
        "nomination": job.nomination,
        "avoids": job.avoids,
    }


def to_job(row: Row, attempts: tuple[Attempt, ...]) -> Job:
    request = row["request"]
    if request.priority != row["priority"]:  # it has been changed since the submission
        request = replace(request, priority=row["priority"])
    return Job(
        id=JobId(row["id"]),
        name=row["name"],
        request=request,
        program=row["program"],
        submitted=row["submitted"],
        state=JobState(row["state"]),
        reason=row["reason"],
        wanted=JobState(row["wanted"]) if row["wanted"] else None,
        queued=row["queued"],
        attempts=attempts,
        checkpointed=row["checkpointed"],
        ended=row["ended"],
        idempotency_key=row["idempotency_key"],
        nomination=row["nomination"],
        avoids=row["avoids"],
        schedule=row["schedule"],
    )


def of_attempt(job: str, attempt: Attempt) -> dict[str, Any]:
    return {
        "job": job,
        "number": attempt.number,
        "created": attempt.created,
        "started": attempt.started,
        "stopping": attempt.stopping,
        "ended": attempt.ended,
        "ending": attempt.ending and attempt.ending.value,
        "reason": attempt.reason,
        "error_excerpt": attempt.error_excerpt,
        "gpu_type": attempt.gpu_type,
        "throughput": attempt.throughput,
        "fault": attempt.fault and attempt.fault.value,
        "exit_codes": attempt.exit_codes,
        "placement": attempt.placement,
    }


def to_attempt(row: Row) -> Attempt:
    return Attempt(
        number=row["number"],
        placement=row["placement"],
        created=row["created"],
        started=row["started"],
        ended=row["ended"],
        exit_codes=row["exit_codes"],
        reason=row["reason"],
        stopping=row["stopping"],
        ending=Ending(row["ending"]) if row["ending"] else None,
        error_excerpt=row["error_excerpt"],
        gpu_type=row["gpu_type"],
        throughput=row["throughput"],
        fault=Fault(row["fault"]) if row["fault"] else None,
    )


def of_session(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "user": session.user,
        "server": session.server,
        "state": session.state.value,
        "reason": session.reason,
        "requested": session.requested,
        "started": session.started,
        "ended": session.ended,
        "request": session.request,
        "placement": session.placement,
        "placed": session.placed,
        "claim": session.claim,
        "recalled": session.recalled,
        "groups": session.groups,
    }


def to_session(row: Row) -> Session:
    return Session(
        id=SessionId(row["id"]),
        server=row["server"],
        request=row["request"],
        requested=row["requested"],
        state=SessionState(row["state"]),
        reason=row["reason"],
        placement=row["placement"],
        started=row["started"],
        ended=row["ended"],
        placed=row["placed"],
        claim=row["claim"],
        recalled=row["recalled"],
        groups=row["groups"],
    )


def of_event(event: EventRecord) -> dict[str, Any]:
    return asdict(event)


def to_event(row: Row) -> EventRecord:
    return EventRecord(**row)


def of_audit(record: AuditRecord) -> dict[str, Any]:
    """Without its id, which the store gives it."""
    return {name: value for name, value in asdict(record).items() if name != "id"}


def to_audit(row: Row) -> AuditRecord:
    return AuditRecord(**row)
