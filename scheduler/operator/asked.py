"""The job or the pool that a custom resource asks for: the same for the operator, which brings it about, and for the
webhook, which only says whether it could be."""

from __future__ import annotations

from scheduler.api.access import Caller, Scope
from scheduler.api.context import Context
from scheduler.api.submitting import job_of_submission, with_ids
from scheduler.errors import Forbidden, Invalid
from scheduler.model import Job, Pool, UserName
from scheduler.operator.crds import NOT_IN_A_TRAINJOB
from scheduler.operator.resources import USER, Resource
from scheduler.pool.file import with_project
from scheduler.schema import JobSubmit, ProjectEntry
from scheduler.schema.reading import validate


def caller_of(user: str) -> Caller:
    """The user of a namespace, who submits its TrainJobs."""
    return Caller.of(UserName(user), frozenset({Scope.SUBMIT}))


async def asked_job(context: Context, item: Resource, user: str, key: str | None) -> Job:
    """The job of a TrainJob in a namespace of `user` (empty: of nobody). Raises `RunaiError`."""
    metadata = item["metadata"]
    namespace = metadata["namespace"]
    if not user:
        raise Forbidden(
            f"The namespace {namespace} belongs to no user of the pool. Ask an administrator to run: "
            f"kubectl annotate namespace {namespace} {USER}=<user>"
        )
    for name in NOT_IN_A_TRAINJOB & item["spec"].keys():
        raise Invalid(f"{name}: a TrainJob has no such key; remove it.", field=name)
    caller = caller_of(user)
    sent = validate(JobSubmit, {**item["spec"], "name": metadata["name"]})
    return job_of_submission(context, caller, await with_ids(context, caller, sent), key)


def asked_pool(context: Context, item: Resource) -> Pool:
    """The pool with the project of a Project. Raises `Invalid`."""
    entry = validate(ProjectEntry, {**item["spec"], "name": item["metadata"]["name"]})
    return with_project(context.book.pool, entry, context.clock())
