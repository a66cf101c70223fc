"""The events of a change, for the record and for listeners."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import GpuKey, Job, JobState, Pool, Schedule, Session, SessionState
from scheduler.pool.changes import changes
from scheduler.store import JOB_DELETED, AuditRecord, EventRecord

GPU = "gpu"
"""The kind of audit records of GPUs; their name is the node, a slash, and the number of the GPU."""


def job_submitted(job: Job, now: float) -> EventRecord:
    return _of_job(job, "job.submitted", now, name=job.name)


def job_state(job: Job, now: float, was: JobState, *, warned: bool = False) -> EventRecord:
    """A job whose state was `was` has another state, reason or priority; `warned`: it is now expected to be paused."""
    more = {"warned": True} if warned else {}
    return _of_job(job, "job.state", now, attempt=len(job.attempts), was=was.value, **more)


def job_deleted(job: Job, now: float) -> EventRecord:
    return EventRecord(now, JOB_DELETED, job.id, job.user, job.request.project)


def _of_job(job: Job, kind: str, now: float, **more: object) -> EventRecord:
    data = {"state": job.state.value, "reason": job.reason, **more}
    return EventRecord(now, kind, job.id, job.user, job.request.project, data)


def session_state(session: Session, now: float) -> EventRecord:
    data = {"state": session.state.value, "reason": session.reason, "server": session.server}
    return EventRecord(now, "session.state", session.id, session.user, None, data)


def schedule_changed(schedule: Schedule, now: float) -> EventRecord:
    return EventRecord(now, "schedule.changed", schedule.id, schedule.user)


def schedule_deleted(schedule: Schedule, now: float) -> EventRecord:
    return EventRecord(now, "schedule.deleted", schedule.id, schedule.user)


def pool_changed(before: Pool, after: Pool, now: float) -> Iterable[EventRecord]:
    """One for the pool and one for each project that is new, different or gone."""
    yield EventRecord(now, "pool.changed", "pool")
    was = {project.name: project for project in before.projects}
    will = {project.name: project for project in after.projects}
    for name in {**was, **will}:
        if was.get(name) != will.get(name):
            change = "removed" if name not in will else "changed" if name in was else "added"
            yield EventRecord(now, "project.changed", name, project=name, data={"change": change})


def gpu_failed(gpu: GpuKey, reason: str, now: float) -> tuple[EventRecord, AuditRecord]:
    return _of_gpu(gpu, "gpu.failed", now, None, reason)


def gpu_recovered(gpu: GpuKey, reason: str, now: float) -> tuple[EventRecord, AuditRecord]:
    """A GPU that failed for this reason works again."""
    return _of_gpu(gpu, "gpu.recovered", now, reason, None)


def _of_gpu(
    gpu: GpuKey, kind: str, now: float, before: str | None, after: str | None
) -> tuple[EventRecord, AuditRecord]:
    name = "{}/{}".format(*gpu)
    event = EventRecord(now, kind, name, data={"node": gpu[0], "gpu": gpu[1], "reason": before or after})
    return event, AuditRecord(now, None, "change", GPU, name, {"failure": before}, {"failure": after})


def audited(before: Pool, after: Pool, by: str | None, now: float) -> tuple[AuditRecord, ...]:
    """The audit records of a change of the pool."""
    return tuple(
        AuditRecord(now, by, found.action, found.kind, found.name, found.before, found.after)
        for found in changes(before, after)
    )


def asked(before: Job, after: Job, by: str | None, now: float) -> tuple[AuditRecord, ...]:
    """The audit records of a request on a job by somebody other than its owner."""
    if by is None or after == before:
        return ()
    was: dict[str, object]
    wanted: dict[str, object]
    if after.request.priority != before.request.priority:
        was, wanted = {"priority": before.request.priority}, {"priority": after.request.priority}
    else:
        was, wanted = {"state": before.state.value}, {"state": (after.wanted or JobState.QUEUED).value}
    return (AuditRecord(now, by, "change", "job", before.id, {**was, **_whose(before)}, wanted),)


def removed(gone: Job | Session, by: str | None, now: float, why: str = "") -> tuple[AuditRecord, ...]:
    """The audit records of a deletion or closing by somebody other than the owner, or by the scheduler, which says
    why."""
    if by is None and not why:
        return ()
    kind = "job" if isinstance(gone, Job) else "session"
    return (AuditRecord(now, by, "remove", kind, gone.id, _whose(gone), {"reason": why} if why else None),)


def moved(before: Session, after: Session, why: str, now: float) -> tuple[AuditRecord, ...]:
    """The audit records of a session whose GPUs are lent, taken back or returned; `why` if that is not its owner's
    return."""
    if after.state is SessionState.ENDED or (after.placement == before.placement and after.claim == before.claim):
        return ()
    was, wanted = {**_whose(before), "gpus": _gpus_of(before)}, {"gpus": _gpus_of(after)}
    return (
        AuditRecord(now, None, "change", "session", before.id, was, {**wanted, **({"reason": why} if why else {})}),
    )


def _gpus_of(session: Session) -> str:
    return "lent" if session.claim else "taken back" if session.taken else "held"


def _whose(thing: Job | Session) -> dict[str, str]:
    return {"owner": thing.user, "name": thing.name if isinstance(thing, Job) else thing.server}
