"""What every submission goes through: its owner, its project, its uploads and the jobs that it depends on."""

from __future__ import annotations

import re
from dataclasses import replace

from scheduler.api.access import Caller
from scheduler.api.context import Context
from scheduler.api.convert import job_of, with_defaults
from scheduler.errors import Invalid
from scheduler.model import ArrayId, Job, JobId, Schedule
from scheduler.pool.rules import rules_of
from scheduler.schema import NAME, JobSubmit
from scheduler.schema.reading import validate
from scheduler.store import JobFilter

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(NAME)


async def find_job(api: Context, caller: Caller, job: str) -> Job | None:
    """The job with this id, else the caller's newest job with this name."""
    found = await api.controller.job(JobId(job)) if _ID.fullmatch(job) else None
    if found is None and _NAME.fullmatch(job):
        named = await api.controller.jobs(JobFilter(user=caller.name, name=job), limit=1)
        found = named[0] if named else None
    return found


async def with_ids(api: Context, caller: Caller, sent: JobSubmit) -> JobSubmit:
    """`sent` with ids instead of the names of jobs in `after`. Raises `Invalid` where the caller may not see one."""
    access, after = api.access(caller), []
    for given in sent.after:
        name, colon, condition = given.partition(":")
        first = await find_job(api, caller, name)
        job = name if first is None else first.id
        if first is None:
            first = next(iter(await api.controller.jobs(JobFilter(array=ArrayId(name)), limit=1)), None)
        if first is None or not access.sees_job(first):
            raise Invalid(f"after: there is no job {name} that you may see.", field="after")
        after.append(f"{job}{colon}{condition}")
    return sent.model_copy(update={"after": after})


def job_of_submission(api: Context, caller: Caller, sent: JobSubmit, key: str | None) -> Job:
    """The job of `sent`, completed by the rules of its project. Raises `Forbidden` for a project that does not take the
    caller's jobs."""
    project = api.access(caller).project_for(sent.project)
    return job_of(
        with_defaults(sent, rules_of(project, api.book.pool)),
        user=caller.name,
        project=project,
        now=api.clock(),
        idempotency_key=key,
    )


def check_blobs(api: Context, caller: Caller, job: Job, sent: JobSubmit) -> None:
    """A digest alone grants no access: the caller must have uploaded the bytes of the bundle and of every part of a
    file."""
    for digest in job.program.blobs:
        if not (api.owners.has(caller.name, digest) and api.blobs.touch(digest)):
            field = "bundle" if digest == sent.bundle else "files"
            raise Invalid(
                f"{field}: you have not uploaded the bundle {digest[:12]}… to /blobs; upload it first.",
                field=field,
            )


def job_of_schedule(api: Context, caller: Caller, schedule: Schedule) -> Job:
    """A run of a schedule, as if its owner, who is the caller, submitted it now. Raises `Forbidden` or `Invalid`."""
    sent = validate(JobSubmit, schedule.submission)
    job = job_of_submission(api, caller, sent, None)
    check_blobs(api, caller, job, sent)
    return replace(job, schedule=schedule.id, program=replace(job.program, container=schedule.container))
