"""The interface that every submission comes through: as whom, into which project, and after which jobs."""

from __future__ import annotations

import re

from scheduler.api.access import Caller
from scheduler.api.context import Context
from scheduler.api.convert import job_of, with_defaults
from scheduler.errors import Invalid
from scheduler.model import Job, JobId
from scheduler.pool.rules import rules_of
from scheduler.schema import NAME, JobSubmit
from scheduler.store import JobFilter

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(NAME)


async def find_job(api: Context, caller: Caller, job: str) -> Job | None:
    """The job of this id, else the caller's newest of this name."""
    found = await api.controller.job(JobId(job)) if _ID.fullmatch(job) else None
    if found is None and _NAME.fullmatch(job):
        named = await api.controller.jobs(JobFilter(user=caller.name, name=job), limit=1)
        found = named[0] if named else None
    return found


async def with_ids(api: Context, caller: Caller, sent: JobSubmit) -> JobSubmit:
    """With ids in the place of names of jobs that come first. Raises `Invalid` where the caller may not see one."""
    access, after = api.access(caller), []
    for given in sent.after:
        name, colon, condition = given.partition(":")
        first = await find_job(api, caller, name)
        job = name if first is None else first.id
        if first is None:
            first = next(iter(await api.controller.jobs(JobFilter(array=name), limit=1)), None)
        if first is None or not access.sees_job(first):
            raise Invalid(f"after: there is no job {name} that you may see.", field="after")
        after.append(f"{job}{colon}{condition}")
    return sent.model_copy(update={"after": after})


def job_of_submission(api: Context, caller: Caller, sent: JobSubmit, key: str | None) -> Job:
    """The job of `sent`, as the rules of its project complete it. Raises `Forbidden` for a project that does not take
    the caller's jobs."""
    project = api.access(caller).project_for(sent.project)
    return job_of(
        with_defaults(sent, rules_of(project, api.book.pool)),
        user=caller.name,
        project=project,
        now=api.clock(),
        idempotency_key=key,
    )
