"""Changes of jobs: `lifecycle` decides them; they are made durable and then carried out by the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from scheduler.controller import dependencies, lifecycle, notices
from scheduler.controller.lifecycle import Instruction, Step, StopAttempt
from scheduler.controller.pausenotices import running, warning_of
from scheduler.controller.pauses import Pauses
from scheduler.controller.statewriter import StateWriter, Written
from scheduler.controller.throughputs import type_of
from scheduler.controller.workertracker import Credentials, WorkerTracker
from scheduler.engines.base import Engine, Traits
from scheduler.errors import NotFound
from scheduler.model import Job, JobId, JobState, Node, WorkerPlacement, WorkloadId
from scheduler.policy import Action, Decision
from scheduler.pool.rules import check_priority
from scheduler.store import EVERY_JOB, NEWEST, AuditRecord, ChangeSet, JobFilter, JobOrder, Store

UNFINISHED = frozenset(state for state in JobState if not state.final)


class Jobs:
    """`wake` is called when the policy may decide differently than before."""

    def __init__(
        self,
        writer: StateWriter,
        store: Store,
        engine: Engine,
        traits: Traits,
        wake: Callable[[], None],
        clock: Callable[[], float],
        credentials: Credentials,
    ) -> None:
        self._writer = writer
        self._store = store
        self._wake = wake
        self._clock = clock
        self.pauses = Pauses()
        engine.watch_refused(self._may_start)
        self._tracker = WorkerTracker(engine, traits, self._observe, credentials)
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._avoiding: dict[str, asyncio.TimerHandle] = {}
        self._notices: dict[tuple[JobId, str], str] = {}

    async def open(self) -> None:
        """Find the running workers of the jobs that hold GPUs according to the durable state."""
        holding = list(self._writer.book.holding.values())
        never = await self._tracker.open(holding)
        for job in holding:
            if (job.id, len(job.attempts)) in never:
                self._take(job, lifecycle.never_launched(job, self._clock()))

    async def close(self) -> None:
        """Finish launches, then stop; workers keep running."""
        self._forget_timers()
        await self._tracker.close()

    async def abort(self) -> None:
        """Stop at once; workers keep running."""
        self._forget_timers()
        await self._tracker.abort()

    def _forget_timers(self) -> None:
        for timer in (*self._deadlines.values(), *self._avoiding.values()):
            timer.cancel()

    @property
    def busy(self) -> bool:
        """Whether a call to the engine is under way."""
        return self._tracker.busy

    async def idle(self) -> None:
        """Wait until all calls to the engine are done."""
        await self._tracker.idle()

    def resync(self) -> None:
        """Compare every job with the durable state and the status of its workers."""
        for job in list(self._writer.decided.jobs.values()):
            self._mind(job)
            if job.state is JobState.STOPPING:
                self._do(StopAttempt(job.id, len(job.attempts), job.program.grace))
            if job.state.holds_gpus:
                self._observe(job.id, len(job.attempts))

    # -- reading ------------------------------------------------------------------------------------------

    async def find(self, job_id: JobId) -> Job | None:
        """A job, whether it has ended or not."""
        return self._writer.book.find(job_id) or await self._store.job(job_id)

    async def list(self, wanted: JobFilter = EVERY_JOB, order: JobOrder = NEWEST, *, limit: int = 100) -> list[Job]:
        """Unfinished ones come from the book."""
        if wanted.states is None or not UNFINISHED.issuperset(wanted.states):
            return await self._store.jobs(wanted, order, limit=limit)
        book = self._writer.book
        unfinished = book.jobs if wanted.user is None else book.jobs_of(wanted.user)
        return order.page((job for job in unfinished.values() if wanted.matches(job)), limit)

    async def decided(self, job_id: JobId) -> Job:
        """A job as decided: its end may not be durable yet. Raises `NotFound`."""
        job = self._writer.decided.jobs.get(job_id)
        if job is None:
            await self._writer.durable()
            job = await self._store.job(job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.")
        return job

    # -- what its owner requests ------------------------------------------------------------------------------

    async def cancel(self, job_id: JobId, by: str | None = None) -> Job:
        """Cancel a job; `by` is set if that is not its owner. Raises `Conflict` where it has ended by itself."""
        return await self._ask(job_id, partial(lifecycle.cancel, by=by), by)

    async def pause(self, job_id: JobId, by: str | None = None) -> Job:
        """Release a job's GPUs until `resume`; `by` is set if that is not its owner.

        Raises `Conflict` where it has ended or is being cancelled.
        """
        return await self._ask(job_id, partial(lifecycle.pause, by=by), by)

    async def resume(self, job_id: JobId, by: str | None = None) -> Job:
        """Queue a paused job again; one that is not paused stays as it is. Raises `Conflict` where it has ended."""
        return await self._ask(job_id, partial(lifecycle.resume, by=by), by)

    async def set_priority(self, job_id: JobId, priority: int, by: str | None = None) -> Job:
        """Change a job's priority, for the next plan; `by` is set if that is not its owner's request.

        Raises `Conflict` where it has ended, `Invalid` above the maximum of its project.
        """
        job = await self.decided(job_id)
        check_priority(job.request.project, priority, self._writer.decided.pool)
        return await self._ask(job_id, partial(lifecycle.set_priority, priority=priority), by)

    async def _ask(self, job_id: JobId, verb: Callable[[Job, float], Step], by: str | None) -> Job:
        job, now = await self.decided(job_id), self._clock()
        step = verb(job, now)
        await self._writer.durable(self._take(job, step, notices.asked(job, step.job, by, now)))
        return step.job

    # -- what a plan decides ------------------------------------------------------------------------------

    def start(self, job: Job, placement: tuple[WorkerPlacement, ...]) -> None:
        """Start a queued job."""
        gpu_type = type_of(placement, self._writer.decided.nodes)
        self._take(job, lifecycle.start(job, placement, self._clock(), gpu_type))

    def stop(self, job: Job, decision: Decision) -> None:
        """End a job's attempt, to reclaim its GPUs or to continue elsewhere: no engine can change a running attempt."""
        now = self._clock()
        match decision.action:
            case Action.GROW:
                why = "its project reclaims its guarantee." if decision.after else "GPUs were idle."
                step = lifecycle.resize(job, decision.placement, why, now)
            case Action.SHRINK:
                step = lifecycle.resize(job, decision.placement, decision.reason, now)
            case Action.MOVE:
                step = lifecycle.move(job, decision.placement, decision.reason, now)
            case _:
                step = lifecycle.preempt(job, decision.reason, now)
        self._take(job, step)

    def nominate(self, placements: Mapping[WorkloadId, tuple[WorkerPlacement, ...]]) -> None:
        """Record the jobs that will start once others have left their GPUs."""
        jobs = self._writer.decided.jobs
        known = [(jobs[id], placement) for id, placement in placements.items() if id in jobs]
        nominated = [lifecycle.promise(job, placement) for job, placement in known]
        changed = tuple(job for job in nominated if job != jobs[job.id])
        if changed:
            self._writer.commit(ChangeSet(jobs=changed))

    def drop_nominations(self, nominations: Mapping[WorkloadId, tuple[WorkerPlacement, ...]]) -> None:
        """These jobs cannot have their nominated placements."""
        for id, nomination in nominations.items():
            job = self._writer.decided.jobs.get(id)
            if job is not None and job.nomination == nomination:
                self._take(job, lifecycle.drop_nomination(job))

    def announce(self, job: Job, notice: str, instruction: Instruction | None = None, *, kind: str = "pause") -> None:
        """Set the notice of that kind of a running job; an empty one withdraws it. The instruction is carried out once
        the notice is durable."""
        holding = self._writer.decided.holding
        job = holding.get(job.id, job)
        if job.state is not JobState.RUNNING:
            return
        self._notices = {key: known for key, known in self._notices.items() if key[0] in holding}
        self._notices[job.id, kind] = notice
        of_job = [each for (id, _), each in sorted(self._notices.items()) if id == job.id and each]
        announced = replace(job, reason=running(job, " ".join(of_job)))
        self._take(job, Step(announced, () if instruction is None else (instruction,)))

    # -- what happens to it -------------------------------------------------------------------------------

    def observe_nodes(self, nodes: Iterable[Node]) -> None:
        """These nodes exist; workers on any other node are lost."""
        there = {node.name for node in nodes}
        for job in list(self._writer.decided.holding.values()):
            gone = frozenset(worker.node for worker in job.placement) - there
            if gone:
                self._tracker.lose(job, gone, self._clock())

    def idled(self, job: Job) -> None:
        """Its GPUs have been idle for longer than its owner allows."""
        self._take(job, lifecycle.idled(job, self._clock()))

    def exceeded(self, job_id: WorkloadId, attempt: int, reason: str) -> None:
        """It has used more GPU memory than it was given."""
        job = self._writer.decided.jobs.get(JobId(job_id))
        if job is not None and _runs(job, attempt):
            self._take(job, lifecycle.exceeded(job, reason, self._clock()))

    def saved(self, job_id: JobId, at: float) -> None:
        """A job has saved a checkpoint since the last check."""
        job = self._writer.decided.jobs.get(job_id)
        if job is not None:
            self._take(job, Step(replace(job, checkpointed=min(at, self._clock()))))
            if job.checkpointed is None:
                self._wake()  # it may grow now

    def _observe(self, job_id: JobId, attempt: int) -> None:
        """The status of an attempt's workers has changed."""
        job = self._writer.decided.jobs.get(job_id)
        if job is None or not _runs(job, attempt):
            durable = self._writer.book.jobs.get(job_id)
            if durable is None or not _runs(durable, attempt):
                self._tracker.dismiss(job_id, attempt)
            return
        refusal = self._tracker.refusal(job)
        if refusal is None:
            step = lifecycle.observe(job, self._tracker.standing(job), self._clock())
        else:
            step = lifecycle.refused(job, refusal.sentence, self._clock(), refusal.fault)
        self._take(job, step)

    def _may_start(self, job_id: JobId, attempt: int) -> bool:
        self._wake()
        return self.pauses.lift(job_id, attempt, self._writer.decided.jobs)

    def _forgive(self, job_id: JobId) -> None:
        """It no longer needs to avoid a node."""
        self._avoiding.pop(job_id, None)
        job = self._writer.decided.jobs.get(job_id)
        if job is not None:
            self._take(job, lifecycle.forgive(job, self._clock()))
            self._wake()

    def _overran(self, job_id: JobId) -> None:
        self._deadlines.pop(job_id, None)
        job = self._writer.decided.jobs.get(job_id)
        if job is not None:
            self._take(job, lifecycle.overran(job, self._clock()))

    # -- steps --------------------------------------------------------------------------------------------

    def _take(self, before: Job, step: Step, audit: tuple[AuditRecord, ...] = ()) -> Written | None:
        """Apply a step: its instructions are carried out once it is durable."""
        job = step.job
        if job == before:
            for instruction in step.do:
                self._do(instruction)
            return None
        now = self._clock()
        behind = dependencies.never_satisfied(job, self._writer.decided.dependent, now) if job.state.final else ()
        reordered = job.request.priority != before.request.priority
        told = reordered or (job.state, job.reason) != (before.state, before.reason)
        # Those that depend on it were queued or paused.
        of_others = tuple(notices.job_state(other, now, JobState.QUEUED) for other in behind)
        warned = bool(warning_of(job.reason)) and not warning_of(before.reason)
        events = (notices.job_state(job, now, before.state, warned=warned), *of_others) if told else of_others
        do = (partial(self._do, instruction) for instruction in step.do)
        change = ChangeSet(jobs=(job, *behind), events=events, audit=audit)
        written = self._writer.commit(change, partial(self._mind, job), *do)
        if reordered or job.state is not before.state:
            self._wake()
        return written

    def _do(self, instruction: Instruction) -> None:
        job = self._writer.book.jobs.get(instruction.job)
        if job is not None and len(job.attempts) == instruction.attempt:
            self._tracker.do(instruction, job, {node.name: node for node in self._writer.book.nodes})

    def _mind(self, job: Job) -> None:
        """Do what a job's durable state requires: watch its run time and the nodes that it avoids, or forget its
        workers."""
        self._watch_avoided(job)
        limit = job.program.max_runtime
        if job.state is JobState.RUNNING and limit is not None and job.id not in self._deadlines:
            left = (job.attempts[-1].started or 0.0) + limit - self._clock()
            left = min(max(0.0, left), limit)  # the clock may have been set back
            loop = asyncio.get_running_loop()
            self._deadlines[job.id] = loop.call_later(left, self._overran, job.id)
        if not job.state.holds_gpus:
            if job.id in self._deadlines:
                self._deadlines.pop(job.id).cancel()
            self._tracker.dismiss(job.id, len(job.attempts))

    def _watch_avoided(self, job: Job) -> None:
        if job.id in self._avoiding:
            self._avoiding.pop(job.id).cancel()
        if job.avoids and not job.state.final:
            left = min(avoided.until for avoided in job.avoids) - self._clock()
            loop = asyncio.get_running_loop()
            self._avoiding[job.id] = loop.call_later(max(0.0, left), self._forgive, job.id)


def _runs(job: Job, attempt: int) -> bool:
    return job.state.holds_gpus and len(job.attempts) == attempt
