"""The controller of the custom resources: applies their specs and writes the outcome to their status.

What must hold:
- A TrainJob becomes exactly one job, submitted as through the API and with the same rights, even across restarts: the
  job's id is derived from the TrainJob's uid.
- A job is cancelled once its TrainJob is gone, also if that happened while the operator was down. A TrainJob has no
  finalizer, so its deletion never blocks; it owns its pods if they share a namespace.
- The deletion of a Project never blocks for good: its finalizer goes once the project is removed or cannot be.
- Every error of a resource is a sentence in its conditions; it is retried when the resource, its namespace or the pool
  changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from scheduler.api import views
from scheduler.api.context import Context
from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.mirror import Mirror
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.errors import Conflict, Invalid, NotFound, RunaiError, TooMany, Unavailable
from scheduler.model import Job, JobId, JobState
from scheduler.operator.asked import asked_job, asked_pool, caller_of
from scheduler.operator.crds import GROUP, VERSION
from scheduler.operator.resources import (
    FINALIZER,
    USER,
    Resource,
    Status,
    deleted,
    is_applied,
    job_id,
    of_job,
    of_project,
    refused,
    viewed,
)
from scheduler.operator.webhook import Webhook
from scheduler.operator.workqueue import WorkQueue
from scheduler.pool.file import without_project
from scheduler.store import EventRecord

log = logging.getLogger(__name__)

PLANS = 5.0
"""Seconds between updates of the reasons why jobs are queued: these are no events."""

TRY_AGAIN = 30.0
"""Seconds until a submission over a limit is retried."""

KEY = "trainjob-"
"""The prefix of the idempotency key of a TrainJob's job; its uid follows."""

TRAINJOBS, PROJECTS = "trainjobs", "projects"
GONE = "the job of a deleted trainjob"


class Key(NamedTuple):
    kind: str
    name: str
    """`namespace/name`, as in a mirror; the job's id for `GONE`."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name.strip('/')}"


class Operator:
    """The operator of the leader; `settings` name the cluster."""

    def __init__(self, settings: Kubernetes, context: Context) -> None:
        self._calls = Api(settings.kubeconfig, settings.context)
        self._context = context
        self._controller = context.controller
        self._queue: WorkQueue[Key] = WorkQueue(self._look)
        root = f"/apis/{GROUP}/{VERSION}"
        self._namespaces = Mirror(self._calls, "/api/v1/namespaces", _user_of, self._see_namespace)
        self._mirrors: dict[str, Mirror[Resource]] = {
            kind: Mirror(self._calls, f"{root}/{kind}", viewed, partial(self._see, kind))
            for kind in (PROJECTS, TRAINJOBS)
        }
        self._webhook = Webhook(settings, context, self._user_of) if settings.webhook_certificate else None
        self._keys: dict[JobId, Key] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._closed = False

    async def open(self) -> None:
        """Start to follow the cluster. Raises `Unavailable` if it lacks the definitions, `Invalid` for the settings of
        the webhook."""
        await self._calls.open()
        self._controller.watch(self)
        self._queue.open()
        try:
            if self._webhook is not None:
                self._webhook.open()
            for mirror in self._all_mirrors():
                await mirror.open()
        except Invalid:
            await self.close()
            raise
        except ApiError as error:
            await self.close()
            raise Unavailable(
                f"The custom resources of the cluster cannot be read; install their CRDs: {error}"
            ) from error
        of_trainjobs = {job.id for job in self._context.book.jobs.values() if _is_of_trainjob(job)}
        self._add(Key(GONE, job) for job in of_trainjobs - self._keys.keys())

    async def close(self) -> None:
        self._closed = True
        if self._telling is not None:
            self._telling.cancel()
        if self._webhook is not None:
            await self._webhook.close()
        for mirror in self._all_mirrors():
            await mirror.close()
        await self._queue.close()
        await self._calls.close()

    def _all_mirrors(self) -> tuple[Mirror[Any], ...]:
        """All mirrors in opening order: a TrainJob needs its namespace and its project."""
        return (self._namespaces, *self._mirrors.values())

    # -- queueing ----------------------------------------------------------------------------------------------

    def _see(self, kind: str, before: Resource | None, after: Resource | None) -> None:
        item = after or before
        assert item is not None
        metadata = item["metadata"]
        key = Key(kind, f"{metadata.get('namespace', '')}/{metadata['name']}")
        if kind == TRAINJOBS:
            if before is not None and (after is None or before["metadata"]["uid"] != metadata["uid"]):
                gone = job_id(before["metadata"]["uid"])
                self._keys.pop(gone, None)
                self._queue.add(Key(GONE, gone))
            if after is not None:
                self._keys[job_id(metadata["uid"])] = key
        self._queue.add(key)

    def _see_namespace(self, before: tuple[str, str] | None, after: tuple[str, str] | None) -> None:
        if after is not None:
            self._add(key for key in self._all(TRAINJOBS) if key.name.startswith(f"{after[0]}/"))

    def happened(self, events: Sequence[EventRecord]) -> None:
        for event in events:
            if event.kind.startswith("job."):
                if (key := self._keys.get(JobId(event.subject))) is not None:
                    self._add([key])
            elif event.kind.startswith(("pool.", "project.")):
                self._add(self._all(PROJECTS))
                self._add(key for key in self._all(TRAINJOBS) if not self._item(key)["status"].get("jobId"))

    def decided(self) -> None:
        if self._telling is None and not self._closed:
            self._telling = asyncio.get_running_loop().call_later(PLANS, self._tell)

    def ended(self) -> None:
        self._closed = True

    def _tell(self) -> None:
        self._telling = None
        queued = self._context.book.jobs
        self._add(
            key
            for job, key in self._keys.items()
            if (found := queued.get(job)) is not None and found.state is JobState.QUEUED
        )

    def _all(self, kind: str) -> list[Key]:
        return [Key(kind, name) for name in self._mirrors[kind].items]

    def _item(self, key: Key) -> Resource:
        return self._mirrors[key.kind].items[key.name]

    def _add(self, keys: Iterable[Key]) -> None:
        if not self._closed:
            for key in keys:
                self._queue.add(key)

    # -- reconciling ----------------------------------------------------------------------------------------------

    async def _look(self, key: Key) -> None:
        if key.kind == GONE:
            await self._cancel(JobId(key.name))
        elif (item := self._mirrors[key.kind].items.get(key.name)) is not None:
            look = self._look_at_trainjob if key.kind == TRAINJOBS else self._look_at_project
            with suppress(NotFoundHere):
                await look(key, item)

    async def _look_at_trainjob(self, key: Key, item: Resource) -> None:
        ours = job_id(item["metadata"]["uid"])
        try:
            if not item["metadata"].get("deletionTimestamp"):  # another finalizer may keep it
                await self._tell_status(key, item, await self._trainjob(key, item))
        finally:
            if item["metadata"].get("deletionTimestamp") or ours not in self._keys:  # deleted during submission
                await self._cancel(ours)

    async def _look_at_project(self, key: Key, item: Resource) -> None:
        finalizers = item["metadata"].get("finalizers", [])
        if item["metadata"].get("deletionTimestamp"):
            if FINALIZER in finalizers:
                await self._remove(item)
                rest = [each for each in finalizers if each != FINALIZER]
                await self._patch(key, item, {"metadata": {"finalizers": rest}})
            return
        if FINALIZER not in finalizers:
            item = await self._patch(key, item, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
        await self._tell_status(key, item, await self._project(item))

    async def _tell_status(self, key: Key, item: Resource, status: Status) -> None:
        if status != item["status"]:
            gone = dict.fromkeys(item["status"].keys() - status.keys())
            await self._patch(key, item, {"status": {**gone, **status}}, "/status")

    async def _patch(self, key: Key, item: Resource, change: Resource, part: str = "") -> Resource:
        """Patch a resource unless it has changed. Raises `NotFoundHere` if it is gone."""
        namespace, _, name = key.name.partition("/")
        where = f"namespaces/{namespace}/" if namespace else ""
        metadata = {**change.get("metadata", {}), "resourceVersion": item["metadata"]["resourceVersion"]}
        path = f"/apis/{GROUP}/{VERSION}/{where}{key.kind}/{name}{part}"
        try:
            changed = await self._calls.call(
                "PATCH", path, {**change, "metadata": metadata}, content="application/merge-patch+json"
            )
        except ApiError as error:
            if error.status == 404:
                raise NotFoundHere from error
            raise
        return viewed(changed)

    # -- TrainJobs ------------------------------------------------------------------------------------------------

    async def _trainjob(self, key: Key, item: Resource) -> Status:
        now, ours = self._context.clock(), job_id(item["metadata"]["uid"])
        job = await self._controller.job(ours)
        if job is None and item["status"].get("jobId"):
            return deleted(item, now)
        try:
            job = job or await self._submit(item, ours)
        except Unavailable:
            raise
        except RunaiError as error:
            if isinstance(error, TooMany):
                self._queue.add_later(key, TRY_AGAIN)
            return refused(item, error, now)
        access = self._context.access(caller_of(job.user))
        return of_job(item, views.job_view(job, self._context.book, access), now)

    async def _submit(self, item: Resource, ours: JobId) -> Job:
        metadata = item["metadata"]
        _, user = self._namespaces.items.get(f"/{metadata['namespace']}", ("", ""))
        job = await asked_job(self._context, item, user, f"{KEY}{metadata['uid']}")
        owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "TrainJob"}
        owner |= {name: metadata[name] for name in ("name", "uid", "namespace")}
        container = replace(job.program.container, owner=owner)
        return await self._controller.submit(replace(job, id=ours, program=replace(job.program, container=container)))

    async def _user_of(self, namespace: str) -> str:
        """The user of a namespace, which may be so new that the mirror does not have it."""
        _, user = self._namespaces.items.get(f"/{namespace}", ("", ""))
        if user:
            return user
        found = await self._calls.get("/api/v1/namespaces", fieldSelector=f"metadata.name={namespace}")
        return next((_user_of(each)[1] for each in found["items"]), "")

    async def _cancel(self, ours: JobId) -> None:
        job = await self._controller.job(ours)
        if job is not None and not job.state.final:
            with suppress(Conflict, NotFound):
                await self._controller.cancel(ours)

    # -- Projects -------------------------------------------------------------------------------------------------

    async def _project(self, item: Resource) -> Status:
        now = self._context.clock()
        try:
            async with self._context.changing:
                after = asked_pool(self._context, item)
                if after != self._context.book.pool:
                    await self._controller.apply(after)
        except Unavailable:
            raise
        except RunaiError as error:
            return of_project(item, error, now)
        return of_project(item, None, now)

    async def _remove(self, item: Resource) -> None:
        """Remove the resource's project. One that cannot be removed stays in the pool as an ordinary project."""
        name = item["metadata"]["name"]
        pool = self._context.book.pool
        if not is_applied(item) or all(project.name != name for project in pool.projects):
            return
        try:
            async with self._context.changing:
                await self._controller.apply(without_project(self._context.book.pool, name, self._context.clock()))
        except (Invalid, Conflict) as error:
            log.warning("The Project %s is deleted, and the project stays in the pool: %s", name, error.sentence)


class NotFoundHere(Exception):
    """The resource is gone."""


def _is_of_trainjob(job: Job) -> bool:
    """Whether a job is of a TrainJob. The key alone proves nothing: users choose the keys of their own jobs."""
    key = job.idempotency_key or ""
    return key.startswith(KEY) and job.id == job_id(key.removeprefix(KEY))


def _user_of(namespace: Mapping[str, Any]) -> tuple[str, str]:
    """The name of a namespace, and its user."""
    metadata = namespace["metadata"]
    return metadata["name"], metadata.get("annotations", {}).get(USER, "")
