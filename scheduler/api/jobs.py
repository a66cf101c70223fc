"""Jobs: submit, list, get, explain, cancel, pause, resume and delete."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from scheduler.api import views
from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.convert import jobs_of, submission_of, with_defaults
from scheduler.api.endpoint import endpoint
from scheduler.api.explain import dry_run_view, explanation
from scheduler.api.joblist import JobQuery, next_page, order_of
from scheduler.api.slices import Slices
from scheduler.api.submitting import check_blobs, job_of_submission, with_ids
from scheduler.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.model import Job, JobId, ProjectName
from scheduler.pool.rules import rules_of
from scheduler.schema import ArraySubmit, ArrayView, DryRunView, Explanation, JobChange, JobPage, JobSubmit, JobView
from scheduler.store import JobFilter

_SERVER = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")

NOTEBOOK = (
    "Runai-Notebook",
    "the notebook server that submits the job, whose image and volumes the job gets (its RUNAINOTEBOOK)",
)


class SubmitHandler(ApiHandler):
    """What `POST /jobs` and `POST /arrays` share."""

    async def _with_ids(self, sent: JobSubmit) -> JobSubmit:
        return await with_ids(self.api, self.caller, sent)

    def _with_defaults(self, sent: JobSubmit, project: ProjectName) -> JobSubmit:
        return with_defaults(sent, rules_of(project, self.api.book.pool))

    async def _job(self, sent: JobSubmit) -> Job:
        job = job_of_submission(self.api, self.caller, sent, self._key())
        if self.caller.job is not None:
            return await self._as_in_the_job(job, self.caller.job)
        (job,) = await self.as_in_the_notebook([job])
        return job

    async def _as_in_the_job(self, job: Job, submitter: JobId) -> Job:
        """What a job submits runs in its image, unless it chooses another, and with its volumes."""
        if job.program.may_submit:
            sentence = "may_submit: a job that another job submits may not submit jobs itself; leave it out."
            raise Forbidden(sentence, field="may_submit")
        found = await self.api.controller.job(submitter)
        container = job.program.container if found is None else found.program.container
        container = replace(container, image=job.program.container.image or container.image)
        return replace(job, program=replace(job.program, container=container, submitter=submitter))

    async def as_in_the_notebook(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Jobs from a notebook server run in its image, unless they choose another, and with its volumes."""
        server = self.request.headers.get("Runai-Notebook")
        if self.api.notebooks is None or server is None:
            return jobs
        if not _SERVER.fullmatch(server):
            raise Invalid("Runai-Notebook: this is not the name of a pod; unset RUNAI_NOTEBOOK.", field="image")
        found = await self.api.notebooks.container(self.caller.name, server)
        chosen = jobs[0].program.container.image or (found.image if self.api.traits.images else None)
        container = replace(found, image=chosen)
        return [replace(job, program=replace(job.program, container=container)) for job in jobs]

    async def _views(self, jobs: Iterable[Job]) -> list[JobView]:
        """The views of many jobs, made in slices."""
        access, slices, found = self.access, Slices(), list[JobView]()
        for job in jobs:
            found += views.job_views([job], self.api.book, access)
            if slices.over:
                await slices.rest()
        return found

    def _key(self) -> str | None:
        key = self.request.headers.get("Idempotency-Key")
        if key is not None and not _KEY.fullmatch(key):
            raise Invalid("Idempotency-Key: use 1 to 200 printable characters without spaces, such as a UUID.")
        return key


class ArraysHandler(SubmitHandler):
    @endpoint(
        "Submit an array of jobs, all or none; they are durable when the response arrives",
        Scope.SUBMIT,
        body=ArraySubmit,
        answer=ArrayView,
        status=201,
        headers=(("Idempotency-Key", "a request that repeats the caller's key returns the same array"), NOTEBOOK),
        refuses=(Invalid, Conflict),
    )
    async def post(self) -> None:
        sent = self.body(ArraySubmit)
        sent = sent.model_copy(update={"job": await self._with_ids(sent.job)})
        access = self.access
        project = access.project_for(sent.job.project)
        jobs: Sequence[Job] = jobs_of(
            sent.model_copy(update={"job": self._with_defaults(sent.job, project)}),
            user=self.caller.name,
            project=project,
            now=self.api.clock(),
            idempotency_key=self._key(),
        )
        check_blobs(self.api, self.caller, jobs[0], sent.job)
        jobs = await self.as_in_the_notebook(jobs)
        jobs = await self.api.controller.submit_array(jobs)
        array = jobs[0].request.array
        if array is None:
            raise Conflict("Idempotency-Key: this key was used for a single job; use another.")
        self.tell_event()
        self.answer(ArrayView(id=array.id, jobs=await self._views(jobs)), 201)


class CheckHandler(SubmitHandler):
    @endpoint(
        "Check a job before its files are uploaded, without queueing it",
        Scope.SUBMIT,
        body=JobSubmit,
        status=204,
        refuses=(Invalid, Conflict),
    )
    async def post(self) -> None:
        sent = await self._with_ids(self.body(JobSubmit))
        job = await self._job(sent)
        check_blobs(self.api, self.caller, job, sent)
        await self.api.controller.check(job)
        self.set_status(204)
        self.finish()


class DryRunHandler(SubmitHandler):
    @endpoint(
        "What would happen to a job if it were submitted now; it is not queued",
        Scope.SUBMIT,
        body=JobSubmit,
        answer=DryRunView,
        refuses=(Invalid, Conflict),
    )
    async def post(self) -> None:
        sent = await self._with_ids(self.body(JobSubmit))
        job = await self._job(sent)
        check_blobs(self.api, self.caller, job, sent)
        found = await self.api.controller.dry_run(job)
        self.answer(dry_run_view(found, job, self.api.book, self.access))


class JobsHandler(SubmitHandler):
    @endpoint(
        "Submit a job; it is durable when the response arrives",
        Scope.SUBMIT,
        body=JobSubmit,
        answer=JobView,
        status=201,
        headers=(("Idempotency-Key", "a request that repeats the caller's key returns the same job"), NOTEBOOK),
        refuses=(Invalid, Conflict),
        for_jobs=True,
    )
    async def post(self) -> None:
        sent = await self._with_ids(self.body(JobSubmit))
        job = await self._job(sent)
        check_blobs(self.api, self.caller, job, sent)
        job = await self.api.controller.submit(job)
        self.set_header("Location", f"{self.api.base_url}api/v1/jobs/{job.id}")
        self.tell_event()
        self.answer(views.job_view(job, self.api.book, self.access), 201)

    @endpoint(
        "The caller's jobs and those of their projects, by default the newest first",
        Scope.READ,
        query=JobQuery,
        answer=JobPage,
    )
    async def get(self) -> None:
        query = self.query(JobQuery)
        access = self.access
        self.tell_event()
        wanted = JobFilter(
            states=query.state or None,
            project=query.project,
            projects=None if query.mine or self.caller.admin else access.seen_projects,
            user=self.caller.name if query.mine else query.user,
            array=query.array,
            schedule=query.schedule,
            words=tuple(query.find.split()),
        )
        order = order_of(query, self.api.clock())
        jobs = await self.api.controller.jobs(wanted, order, limit=query.limit)
        seen = [job for job in jobs if access.sees_job(job)]
        more = next_page(order, jobs[-1]) if len(jobs) == query.limit else None
        self.answer(JobPage(jobs=await self._views(seen), next=more))


class JobHandler(ApiHandler):
    @endpoint("One job", Scope.READ, answer=JobView, refuses=(NotFound,), for_jobs=True)
    async def get(self, job_id: JobId) -> None:
        self.tell_event()
        access = self.access
        job = access.visible_job(await self.find(job_id), job_id)
        self.answer(views.job_views([job], self.api.book, access)[0])

    @endpoint(
        "Change the priority of a job that has not ended; the next plan uses it",
        Scope.SUBMIT,
        body=JobChange,
        answer=JobView,
        refuses=(NotFound, Forbidden, Conflict, Invalid),
    )
    async def patch(self, job_id: JobId) -> None:
        access = self.access
        job = access.controlled_job(await self.find(job_id), job_id)
        priority = self.body(JobChange).priority
        job = await self.api.controller.set_priority(job.id, priority, access.stranger_to(job))
        self.tell_event()
        self.answer(views.job_views([job], self.api.book, access)[0])

    @endpoint(
        "Delete a job that has ended, with its logs, outputs and checkpoints",
        Scope.SUBMIT,
        status=204,
        refuses=(NotFound, Forbidden, Conflict),
    )
    async def delete(self, job_id: JobId) -> None:
        access = self.access
        job = access.controlled_job(await self.find(job_id), job_id)
        await self.api.controller.delete(job.id, access.stranger_to(job))
        self.set_status(204)
        self.finish()


class ExplainHandler(ApiHandler):
    @endpoint(
        "Why a job is in its state, and what it waits for",
        Scope.READ,
        answer=Explanation,
        refuses=(NotFound,),
    )
    async def get(self, job_id: JobId) -> None:
        access = self.access
        job = access.visible_job(await self.find(job_id), job_id)
        self.answer(explanation(job, self.api.book, access, self.api.clock()))


class SubmissionHandler(ApiHandler):
    @endpoint(
        "A job as its owner submitted it, with the defaults that applied; POST /jobs accepts it",
        Scope.SUBMIT,
        answer=JobSubmit,
        refuses=(NotFound, Forbidden),
    )
    async def get(self, job_id: JobId) -> None:
        job = self.access.owned_job(await self.find(job_id), job_id)
        self.set_header("Content-Type", "application/json")
        # What is left open stays open: some fields may not be given together.
        self.finish(submission_of(job).model_dump_json(exclude_unset=True))


class VerbHandler(ApiHandler):
    """One of the controller's verbs, on the caller's own job or, for an administrator, on any."""

    async def apply(self, job_id: JobId, verb: Callable[[JobId, str | None], Awaitable[Job]]) -> None:
        access = self.access
        job = access.controlled_job(await self.find(job_id), job_id)
        job = await verb(job.id, access.stranger_to(job))
        self.tell_event()
        self.answer(views.job_views([job], self.api.book, access)[0])


class CancelHandler(VerbHandler):
    @endpoint("Cancel a job", Scope.SUBMIT, answer=JobView, refuses=(NotFound, Forbidden, Conflict), for_jobs=True)
    async def post(self, job_id: JobId) -> None:
        await self.apply(job_id, self.api.controller.cancel)


class PauseHandler(VerbHandler):
    @endpoint(
        "Pause a job until it is resumed",
        Scope.SUBMIT,
        answer=JobView,
        refuses=(NotFound, Forbidden, Conflict),
    )
    async def post(self, job_id: JobId) -> None:
        await self.apply(job_id, self.api.controller.pause)


class ResumeHandler(VerbHandler):
    @endpoint("Queue a paused job again", Scope.SUBMIT, answer=JobView, refuses=(NotFound, Forbidden, Conflict))
    async def post(self, job_id: JobId) -> None:
        await self.apply(job_id, self.api.controller.resume)
