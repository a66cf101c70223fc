"""Schedules: add, list, change, remove and run. Only their owners see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduler.api import views
from scheduler.api.access import Caller, Scope
from scheduler.api.convert import new_id
from scheduler.api.endpoint import endpoint
from scheduler.api.jobs import NOTEBOOK, SubmitHandler
from scheduler.api.submitting import job_of_schedule
from scheduler.controller.duetimes import activated, next_time, paused
from scheduler.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from scheduler.model import Job, Schedule, ScheduleId
from scheduler.schema import JobSubmit, JobView, ScheduleChange, ScheduleList, ScheduleSubmit, ScheduleView
from scheduler.store import JobFilter


class SchedulesBase(SubmitHandler):
    def find_schedule(self, schedule: str) -> Schedule:
        """The caller's schedule with this id or name."""
        known, mine = self.api.controller.schedules.all, self.caller.name
        named = (one for one in known.values() if (one.user, one.name) == (mine, schedule))
        return self.access.own_schedule(known.get(ScheduleId(schedule)) or next(named, None), schedule)

    async def owner(self) -> Caller:
        """The caller as every run will find them: without the permissions of their token."""
        owner = await self.api.authenticator.user(self.caller.name)
        if owner is None:
            raise Forbidden(f"{self.caller.name} is no user of the hub; only users have schedules.")
        return owner

    async def with_job(self, schedule: Schedule, sent: JobSubmit) -> Schedule:
        """The schedule of this job, which is refused as it would be now."""
        if sent.after:
            raise Invalid("after: the jobs of a schedule do not wait for other jobs; leave it out.", field="after")
        owner = await self.owner()
        project = self.api.access(owner).project_for(sent.project)
        given = {"project": project, "name": sent.name or schedule.name or None}
        sent = sent.model_copy(update={name: value for name, value in given.items() if value is not None})
        schedule = replace(schedule, submission=sent.model_dump(mode="json", exclude_unset=True))
        (job,) = await self.as_in_the_notebook([job_of_schedule(self.api, owner, schedule)])
        await self.api.controller.check(job)
        return replace(
            schedule,
            name=schedule.name or job.name,
            submission={**schedule.submission, "name": job.name},
            blobs=tuple(sorted(job.program.blobs)),
            container=job.program.container,
        )

    async def views(self, schedules: Sequence[Schedule]) -> list[ScheduleView]:
        ids = {schedule.last_job for schedule in schedules if schedule.last_job is not None}
        found = await self.api.controller.jobs(JobFilter(ids=ids), limit=len(ids)) if ids else []
        last = {job.id: view for job, view in zip(found, self._job_views(found), strict=True)}
        return [
            ScheduleView(
                id=schedule.id,
                name=schedule.name,
                cron=schedule.cron,
                timezone=schedule.timezone,
                active=schedule.active,
                notice=schedule.notice,
                created=schedule.created,
                next_run=schedule.due,
                project=schedule.submission["project"],
                kind=schedule.submission.get("kind", "command"),
                command=list(schedule.submission["command"]),
                cell=schedule.submission.get("cell"),
                last_job=last.get(schedule.last_job) if schedule.last_job is not None else None,
            )
            for schedule in schedules
        ]

    def _job_views(self, jobs: Sequence[Job]) -> list[JobView]:
        return views.job_views(jobs, self.api.book, self.access)


class SchedulesHandler(SchedulesBase):
    @endpoint(
        "Submit a job at the times of a cron expression from now on; the schedule is durable when the response arrives",
        Scope.SUBMIT,
        body=ScheduleSubmit,
        answer=ScheduleView,
        status=201,
        headers=(NOTEBOOK,),
        refuses=(Invalid, Conflict, Unavailable),
    )
    async def post(self) -> None:
        sent, now = self.body(ScheduleSubmit), self.api.clock()
        empty = Schedule(
            ScheduleId(new_id("c")), sent.name or "", self.caller.name, sent.cron, sent.timezone, {}, created=now
        )
        waiting = activated(empty, now)
        schedule = await self.with_job(waiting if sent.active else paused(waiting, now), sent.job)
        await self.api.controller.schedules.add(schedule)
        self.set_header("Location", f"{self.api.base_url}api/v1/schedules/{schedule.id}")
        self.tell_event()
        self.answer((await self.views([schedule]))[0], 201)

    @endpoint("The caller's schedules with their last runs, by name", Scope.READ, answer=ScheduleList)
    async def get(self) -> None:
        self.tell_event()
        known = self.api.controller.schedules.all.values()
        mine = sorted((one for one in known if one.user == self.caller.name), key=lambda one: one.name)
        self.answer(ScheduleList(schedules=await self.views(mine)))


class ScheduleHandler(SchedulesBase):
    @endpoint("One schedule of the caller, by its id or name", Scope.READ, answer=ScheduleView, refuses=(NotFound,))
    async def get(self, schedule: str) -> None:
        self.tell_event()
        self.answer((await self.views([self.find_schedule(schedule)]))[0])

    @endpoint(
        "Pause or resume a schedule, or change its times or its job",
        Scope.SUBMIT,
        body=ScheduleChange,
        answer=ScheduleView,
        headers=(NOTEBOOK,),
        refuses=(NotFound, Invalid, Conflict, Unavailable),
    )
    async def patch(self, schedule: str) -> None:
        sent, now, before = self.body(ScheduleChange), self.api.clock(), self.find_schedule(schedule)
        after = replace(
            before,
            name=sent.name or before.name,
            cron=sent.cron or before.cron,
            timezone=sent.timezone or before.timezone,
        )
        if sent.job is not None:
            after = await self.with_job(after, sent.job)
        active = before.active if sent.active is None else sent.active
        if not active:
            next_time(after.cron, after.timezone, now)
            after = paused(after, now)
        elif not before.active or (after.cron, after.timezone) != (before.cron, before.timezone):
            after = activated(after, now)
        await self.api.controller.schedules.change(before, after)
        self.tell_event()
        self.answer((await self.views([after]))[0])

    @endpoint("Remove a schedule; its jobs stay as they are", Scope.SUBMIT, status=204, refuses=(NotFound, Conflict))
    async def delete(self, schedule: str) -> None:
        await self.api.controller.schedules.remove(self.find_schedule(schedule))
        self.set_status(204)
        self.finish()


class RunHandler(SchedulesBase):
    @endpoint(
        "Submit the job of a schedule now, even if it is paused or its last run is unfinished; its times do not change",
        Scope.SUBMIT,
        answer=JobView,
        status=201,
        refuses=(NotFound, Invalid, Conflict, Unavailable),
    )
    async def post(self, schedule: str) -> None:
        before = self.find_schedule(schedule)
        job = job_of_schedule(self.api, await self.owner(), before)
        job = await self.api.controller.schedules.run(before, replace(before, last_job=job.id), job)
        self.tell_event()
        self.answer(self._job_views([job])[0], 201)
