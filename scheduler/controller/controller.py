"""The controller: its verbs, and what happens by itself.

What must hold, over a `kill -9` at any instant:
- A change is durable before anybody is told of it and before anything is done because of it. So an attempt is on disk
  before the engine is asked to launch it, and what the disk says holds GPUs is asked for after a restart.
- Changes are decided one after another, in the event loop, each on top of all before it.
- GPUs are only given by a plan, plans are carried out one at a time, and `Holdings` has the last word.
- Nobody who asks waits for a plan, but for a session, which cannot begin without one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from heapq import nlargest

from scheduler.controller import admission, held, lifecycle, notices, sentences
from scheduler.controller.book import Book, Holdings
from scheduler.controller.checkpoints import Checkpoints
from scheduler.controller.crew import Crew
from scheduler.controller.deletion import Deletion
from scheduler.controller.forecaster import Forecaster
from scheduler.controller.idleness import LOOK, Idleness
from scheduler.controller.leases import Leases
from scheduler.controller.ledger import Ledger, Written
from scheduler.controller.lifecycle import Instruction, Step, StopAttempt
from scheduler.controller.planloop import Decide, Digest, PlanLoop
from scheduler.controller.throughputs import type_of
from scheduler.engines.base import Engine
from scheduler.errors import Conflict, Invalid, NotFound, RunaiError, Unavailable
from scheduler.model import After, Job, JobState, Node, Pool, Session, SessionState
from scheduler.policy import Action, Decision, Forecast, Plan, Snapshot, SnapshotPlanner, forecast
from scheduler.pool.changes import refuse_harm
from scheduler.store import ChangeSet, EventRecord, Store
from scheduler.telemetry import Inventory

log = logging.getLogger(__name__)

DAY = 86_400.0

ALL = 1_000_000
"""More jobs than an array has."""

UNFINISHED = frozenset(state for state in JobState if not state.final)


class Controller:
    """One for each open store. `ready` once it has found again what ran before; `lost` when the state isn't ours any more."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        inventory: Inventory,
        *,
        clock: Callable[[], float] = time.time,
        decide: Decide | None = None,
    ) -> None:
        self.ready = False
        self._store = store
        self._inventory = inventory
        self._clock = clock
        self._ledger = Ledger(store, self._begin_anew)
        self._crew = Crew(engine, self._observe)
        self._deletion = Deletion(self._ledger, store, engine, clock)
        self._plan_loop = PlanLoop(
            partial(self._decide, decide or SnapshotPlanner()), self._look, self._carry_out, clock
        )
        self._held: Mapping[str, Decision] = {}
        self._next_try: float | None = None
        self._forecaster = Forecaster(forecast, self._foretell, clock)
        self._checkpoints = Checkpoints(self._crew.saved, lambda: self._ahead.jobs.values(), self._saved)
        self._leases = Leases()
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._idleness = Idleness()
        self._looking: asyncio.TimerHandle | None = None
        self._submitting: dict[tuple[str, str], asyncio.Task[Sequence[Job]]] = {}
        self._given_back = False

    @property
    def book(self) -> Book:
        return self._ledger.book

    @property
    def lost(self) -> asyncio.Event:
        return self._ledger.lost

    @property
    def _ahead(self) -> Book:
        return self._ledger.ahead

    # -- beginning and end --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the store, find the workers again, begin to plan."""
        await self._ledger.open()
        self._ledger.set_nodes(self._inventory.nodes(self.book.pool))
        holding = [job for job in self.book.jobs.values() if job.state.holds_gpus]
        never = await self._crew.open(holding)
        for job in holding:
            if (job.id, len(job.attempts)) in never:
                self._take(job, lifecycle.never_launched(job, self._clock()))
        self._begin_anew()
        self._plan_loop.open()
        self._forecaster.open()
        self._checkpoints.open()
        self._look_for_idle_jobs()
        self.ready = True

    async def stop(self) -> None:
        """Let go; workers run on."""
        self.ready = False
        await self._plan_loop.close()
        await self._forecaster.close()
        await self._checkpoints.close()
        if self._looking is not None:
            self._looking.cancel()
        for deadline in self._deadlines.values():
            deadline.cancel()
        self._leases.close()
        await self._crew.close()
        with suppress(RunaiError):
            await self._ledger.durable()
        self._ledger.close()

    def _begin_anew(self) -> None:
        """Judge everything that holds GPUs from what is durable and from what is known of its workers."""
        self._part_from_missing_nodes()
        for job in list(self._ahead.jobs.values()):
            self._mind(job)
            if job.state is JobState.STOPPING:
                self._do(StopAttempt(job.id, len(job.attempts), job.program.grace))
            if job.state.holds_gpus:
                self._observe(job.id, len(job.attempts))
        self._plan_loop.wake()

    # -- jobs ---------------------------------------------------------------------------------------------

    async def submit(self, job: Job) -> Job:
        """Queue a new job; durable when it returns. The same user's same idempotency key gives the first job again.

        Raises `Invalid` where the job could never run, `Conflict` where it comes after one that has not succeeded.
        """
        return (await self.submit_array((job,)))[0]

    async def check(self, job: Job) -> None:
        """Refuse a new job as `submit` does, and keep nothing."""
        admission.admit_job_text(job)
        admission.admit_job(job.request, job.program, self._ahead.pool, self._ahead.nodes)
        await self._may_follow(job.request.after)

    async def submit_array(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Queue jobs that differ in their programs alone, all or none. The first one's idempotency key stands for all."""
        job = jobs[0]
        if job.idempotency_key is None:
            return await self._submit(jobs)
        admission.admit_text(user=job.user, idempotency_key=job.idempotency_key)
        key = (job.user, job.idempotency_key)
        submitting = self._submitting.get(key)
        if submitting is None:
            submitting = asyncio.get_running_loop().create_task(self._submit_once(jobs, *key))
            self._submitting[key] = submitting
            submitting.add_done_callback(partial(self._submitted, key))
        return await asyncio.shield(submitting)

    async def _submit_once(self, jobs: Sequence[Job], user: str, key: str) -> Sequence[Job]:
        first = await self._store.job_with_key(user, key)
        if first is None:
            return await self._submit(jobs)
        array = first.request.array
        return (first,) if array is None else await self._members(array.id)

    async def _members(self, array: str) -> Sequence[Job]:
        """An array's jobs, in order."""
        members = await self._store.jobs(array=array, limit=ALL)
        return sorted(members, key=lambda job: job.request.array.index if job.request.array else 0)

    def _submitted(self, key: tuple[str, str], submitting: asyncio.Task[Sequence[Job]]) -> None:
        del self._submitting[key]
        if not submitting.cancelled():
            submitting.exception()  # whoever asked may have gone

    async def _submit(self, jobs: Sequence[Job]) -> Sequence[Job]:
        for job in jobs[1:]:
            admission.admit_job_text(job)
        await self.check(jobs[0])
        queued = tuple(replace(job, state=JobState.QUEUED, reason="Waits for its turn.") for job in jobs)
        events = tuple(notices.job_submitted(job, self._clock()) for job in queued)
        written = self._ledger.commit(ChangeSet(submitted=queued, events=events))
        self._plan_loop.wake()
        await self._ledger.durable(written)
        return queued

    async def _may_follow(self, wanted: Sequence[After]) -> None:
        """When this returns, those of them that are not in the book have ended as they have to."""
        known: set[After] = set()
        while wanted:
            unfinished = held.names(self._ahead.jobs.values())
            ended = [after for after in wanted if after.job not in unfinished and after not in known]
            if not ended:
                return
            await self._ledger.durable()
            for after in ended:
                job = await self._store.job(after.job)
                jobs = await self._members(after.job) if job is None else [job]
                if not jobs:
                    raise Invalid(f"There is no job {after.job} to come after.", field="after")
                if all(each.state.final for each in jobs):  # else what ended them could not be written
                    for each in jobs:
                        held.may_follow(after, each)
                    known.add(after)

    async def cancel(self, job_id: str, by: str | None = None) -> Job:
        """End a job for good; `by` somebody else than its owner. Raises `Conflict` where it has ended by itself."""
        return await self._ask(job_id, partial(lifecycle.cancel, by=by))

    async def pause(self, job_id: str, by: str | None = None) -> Job:
        """Have a job give its GPUs back and wait for `resume`; `by` somebody else than its owner.

        Raises `Conflict` where it has ended or is being cancelled.
        """
        return await self._ask(job_id, partial(lifecycle.pause, by=by))

    async def resume(self, job_id: str, by: str | None = None) -> Job:
        """Queue a paused job again; one that is not paused stays as it is. Raises `Conflict` where it has ended."""
        return await self._ask(job_id, partial(lifecycle.resume, by=by))

    async def delete(self, job_id: str) -> None:
        """Delete a job that has ended and all that is kept of it. Raises `Conflict` while it, or who needs it, has not."""
        job = self._ahead.jobs.get(job_id) or await self._ended_job(job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.")
        await self._deletion.delete(job)

    async def tidy(self) -> None:
        """Delete what the pool keeps no longer, and finish what was begun."""
        await self._deletion.finish()
        keep = self.book.pool.keep_days
        if keep is not None:
            await self._deletion.expire(self._clock() - keep * DAY)

    async def _ask(self, job_id: str, verb: Callable[[Job, float], Step]) -> Job:
        job = self._ahead.jobs.get(job_id) or await self._ended_job(job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.")
        step = verb(job, self._clock())
        await self._ledger.durable(self._take(job, step))
        return step.job

    async def _ended_job(self, job_id: str) -> Job | None:
        """A job that has ended, as far as is decided: its end may still be on its way to the disk."""
        await self._ledger.durable()
        return await self._store.job(job_id)

    async def job(self, job_id: str) -> Job | None:
        """A job, whether it has ended or not."""
        return self.book.jobs.get(job_id) or await self._store.job(job_id)

    async def jobs(
        self,
        *,
        states: Collection[JobState] | None = None,
        project: str | None = None,
        user: str | None = None,
        projects: Collection[str] | None = None,
        limit: int = 100,
        after: tuple[float, str] | None = None,
        array: str | None = None,
    ) -> list[Job]:
        """Newest first; `after` is `(submitted, id)` of the last one seen. Unfinished ones come from the book."""
        if states is None or not UNFINISHED.issuperset(states):
            return await self._store.jobs(
                states=states,
                project=project,
                user=user,
                projects=projects,
                limit=limit,
                after=after,
                array=array,
            )
        wanted = (
            job
            for job in self.book.jobs.values()
            if job.state in states
            and project in (None, job.request.project)
            and user in (None, job.user)
            and (projects is None or job.request.project in projects)
            and (after is None or (job.submitted, job.id) < after)
            and (array is None or array in held.names((job,)))
        )
        return nlargest(limit, wanted, key=lambda job: (job.submitted, job.id))

    # -- sessions -----------------------------------------------------------------------------------------

    async def open_session(self, session: Session) -> Session:
        """Lease GPUs to a user's server; asked again for the same user and server it gives the same lease.

        Raises `RunaiError` with the reason where it can't be placed now.
        """
        for open_one in self._ahead.sessions.values():
            if (open_one.user, open_one.server) == (session.user, session.server):
                await self._ledger.durable()
                return open_one
        admission.admit_text(id=session.id, user=session.user, server=session.server)
        admission.admit_session(session, self._ahead.pool, self._ahead.nodes)
        answer = self._leases.ask(session)
        self._plan_loop.wake()
        return await asyncio.shield(answer)

    async def close_session(self, session_id: str) -> Session:
        """Take a session's GPUs back. A session that has ended stays so."""
        session = self._ahead.sessions.get(session_id)
        if session is None:
            await self._ledger.durable()
            ended = await self._store.session(session_id)
            if ended is None:
                raise NotFound(f"There is no session {session_id}.")
            return ended
        ended = self._end_session(session, "Its server has stopped.")
        await self._ledger.durable()
        return ended

    def _end_session(self, session: Session, reason: str) -> Session:
        now = self._clock()
        ended = replace(session, state=SessionState.ENDED, reason=reason, ended=now)
        self._ledger.commit(ChangeSet(sessions=(ended,), events=(notices.session_state(ended, now),)))
        self._given_back = True
        self._plan_loop.wake()
        return ended

    # -- the pool -----------------------------------------------------------------------------------------

    async def apply(self, pool: Pool) -> None:
        """Make this the pool; durable when it returns. Raises `Conflict` where it would harm what is there."""
        ahead = self._ahead
        present: list[Job | Session] = [*ahead.jobs.values(), *ahead.sessions.values()]
        nodes = self._inventory.nodes(pool)
        refuse_harm(ahead.pool, pool, (each.workload() for each in present), nodes)
        if pool == ahead.pool:
            await self._ledger.durable()
            self._set_nodes(nodes)
            return
        events = tuple(notices.pool_changed(ahead.pool, pool, self._clock()))
        written = self._ledger.commit(ChangeSet(pool=pool, events=events), partial(self._set_nodes, nodes))
        await self._ledger.durable(written)

    def refresh(self) -> None:
        """Look again which nodes there are."""
        self._set_nodes(self._inventory.nodes(self.book.pool))

    def _set_nodes(self, nodes: tuple[Node, ...]) -> None:
        self._ledger.set_nodes(nodes)
        self._part_from_missing_nodes()
        self._plan_loop.wake()

    def _part_from_missing_nodes(self) -> None:
        """What stood on a node that is gone does not stand there any more."""
        there = {node.name for node in self._ahead.nodes}
        for job in list(self._ahead.jobs.values()):
            gone = frozenset(worker.node for worker in job.placement) - there
            if gone:
                self._crew.lose(job, gone, self._clock())
        for session in list(self._ahead.sessions.values()):
            if any(worker.node not in there for worker in session.placement):
                self._end_session(session, "Its node is gone.")

    # -- what happened ------------------------------------------------------------------------------------

    def events(self, after: int | None = None) -> AsyncGenerator[EventRecord, None]:
        """Durable events after the one with the id `after`, then what happens; from now on where it is `None`."""
        return self._ledger.feed.follow(after)

    # -- the lives of jobs --------------------------------------------------------------------------------

    def _observe(self, job_id: str, attempt: int) -> None:
        """What is known of an attempt's workers has changed."""
        job = self._ahead.jobs.get(job_id)
        if job is None or not _runs(job, attempt):
            durable = self.book.jobs.get(job_id)
            if durable is None or not _runs(durable, attempt):
                self._crew.dismiss(job_id, attempt)
            return
        refusal = self._crew.refusal(job)
        if refusal is None:
            step = lifecycle.observe(job, self._crew.standing(job), self._clock())
        else:
            blameless = isinstance(refusal, Unavailable)
            step = lifecycle.refused(job, refusal.sentence, self._clock(), blameless=blameless)
        self._take(job, step)

    def _overran(self, job_id: str) -> None:
        self._deadlines.pop(job_id, None)
        job = self._ahead.jobs.get(job_id)
        if job is not None:
            self._take(job, lifecycle.overran(job, self._clock()))

    def _look_for_idle_jobs(self) -> None:
        usage = self._inventory.usage(self._ahead.nodes)
        for job in self._idleness.look(list(self._ahead.jobs.values()), usage, self._clock()):
            self._take(job, lifecycle.idled(job, self._clock()))
        self._looking = asyncio.get_running_loop().call_later(LOOK, self._look_for_idle_jobs)

    def _saved(self, job_id: str, at: float) -> None:
        """A job has saved its state since it was looked at last."""
        job = self._ahead.jobs.get(job_id)
        if job is not None:
            self._take(job, Step(replace(job, checkpointed=min(at, self._clock()))))
            if job.checkpointed is None:
                self._plan_loop.wake()  # it may grow now

    def _take(self, before: Job, step: Step) -> Written | None:
        """Take a step: what it asks for is done once it is durable."""
        job = step.job
        if job == before:
            for instruction in step.do:
                self._do(instruction)
            return None
        now = self._clock()
        behind = held.left_behind(job, self._ahead.bound, now) if job.state.final else ()
        told = (job.state, job.reason) != (before.state, before.reason)
        events = tuple(notices.job_state(each, now) for each in ((job, *behind) if told else behind))
        do = (partial(self._do, instruction) for instruction in step.do)
        written = self._ledger.commit(
            ChangeSet(jobs=(job, *behind), events=events), partial(self._mind, job), *do
        )
        if before.state.holds_gpus and not job.state.holds_gpus:
            self._given_back = True
        if job.state is not before.state:
            self._plan_loop.wake()
        return written

    def _do(self, instruction: Instruction) -> None:
        job = self.book.jobs.get(instruction.job)
        if job is not None and len(job.attempts) == instruction.attempt:
            self._crew.do(instruction, job, {node.name: node for node in self.book.nodes})

    def _mind(self, job: Job) -> None:
        """See to what a job's durable state asks for: watch its run time, or forget its workers."""
        limit = job.program.max_runtime
        if job.state is JobState.RUNNING and limit is not None and job.id not in self._deadlines:
            left = max(0.0, (job.attempts[-1].started or 0.0) + limit - self._clock())
            loop = asyncio.get_running_loop()
            self._deadlines[job.id] = loop.call_later(left, self._overran, job.id)
        if not job.state.holds_gpus:
            if job.id in self._deadlines:
                self._deadlines.pop(job.id).cancel()
            self._crew.dismiss(job.id, len(job.attempts))

    # -- plans --------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The pool as the policy would see it now."""
        ahead = self._ahead
        now = self._clock()
        held_back = held.held_back(ahead.bound, ahead.jobs, now)
        waiting = (
            w.session.workload() for w in self._leases.waiting.values() if w.session.id not in ahead.sessions
        )
        workloads = (w for w in ahead.workloads.values() if w.id not in held_back)
        return Snapshot(now, ahead.pool, ahead.nodes, (*workloads, *waiting))

    def _look(self) -> Snapshot:
        self._given_back = False
        snapshot = self.snapshot()
        self._held = held.held_back(self._ahead.bound, self._ahead.jobs, snapshot.now)
        self._next_try = held.next_try(self._ahead.bound, snapshot.now)
        return snapshot

    def _decide(self, decide: Decide, snapshot: Snapshot) -> Plan:
        """The policy's plan, and why those wait whom it has not seen."""
        plan = decide(snapshot)
        times = [at for at in (plan.again_at, self._next_try) if at is not None]
        plan = replace(plan, again_at=min(times, default=None))
        return replace(plan, decisions={**plan.decisions, **self._held}) if self._held else plan

    def _carry_out(self, digest: Digest) -> None:
        self.book.plan = digest.plan
        self._forecaster.look(digest.snapshot)
        holdings = Holdings(self._ahead.nodes, self._ahead.workloads.values())
        self._keep_promises(digest)
        for workload, decision in digest.acts.items():
            if decision.action is Action.START:
                self._start(workload, decision, holdings)
            else:
                self._stop(workload, decision)
        for session in list(self._leases.waiting):
            if session in digest.plan.decisions and session not in self._ahead.sessions:
                self._answer(session, digest.plan.decisions[session])
        if digest.news:  # told behind what was decided before: who is not durable yet is by then
            self._ledger.commit(ChangeSet(), partial(self._tell, digest.news))

    def _keep_promises(self, digest: Digest) -> None:
        """Write down who is to start where others leave first, and who can't have the places that it was promised."""
        jobs = self._ahead.jobs
        promised = {id: places for id, places in digest.plan.promises.items() if id in jobs}
        changed = [lifecycle.promise(jobs[id], places) for id, places in promised.items()]
        changed = [job for job in changed if job != jobs[job.id]]
        if changed:
            self._ledger.commit(ChangeSet(jobs=tuple(changed)))
        for workload, nomination in digest.lost.items():
            job = self._ahead.jobs.get(workload)
            if job is not None and job.nomination == nomination:
                self._take(job, lifecycle.disclaim(job))

    def _foretell(self, found: Forecast, moved: Collection[str]) -> None:
        self.book.forecast = found
        self._tell(moved)

    def _start(self, workload: str, decision: Decision, holdings: Holdings) -> None:
        """Give a waiting job or session its GPUs, if it still waits and they are still there."""
        job = self._ahead.jobs.get(workload)
        waiting = self._leases.waiting.get(workload)
        if (job is None or job.state is not JobState.QUEUED) and waiting is None:
            return
        if not holdings.take(decision.placement):
            log.warning("The plan for %s was overtaken: %s is not free.", workload, decision.placement)
        elif job is not None:
            gpu_type = type_of(decision.placement, self._ahead.nodes)
            self._take(job, lifecycle.start(job, decision.placement, self._clock(), gpu_type))
        elif waiting is not None:
            self._lease(waiting.session, decision)

    def _lease(self, session: Session, decision: Decision) -> None:
        now = self._clock()
        reason = f"Holds its GPUs on {sentences.where(decision.placement)}."
        leased = replace(
            session, state=SessionState.LEASED, reason=reason, placement=decision.placement, started=now
        )
        change = ChangeSet(sessions=(leased,), events=(notices.session_state(leased, now),))
        self._ledger.commit(change, partial(self._leases.granted, leased))

    def _stop(self, workload: str, decision: Decision) -> None:
        """End a job's attempt, to take its GPUs back or to go on elsewhere: no engine can change one that runs."""
        job, now = self._ahead.jobs.get(workload), self._clock()
        if job is None:
            return
        match decision.action:
            case Action.GROW | Action.SHRINK:
                step = lifecycle.resize(job, decision.placement, decision.reason, now)
            case Action.MOVE:
                step = lifecycle.move(job, decision.placement, decision.reason, now)
            case _:
                step = lifecycle.preempt(job, decision.reason, now)
        self._take(job, step)

    def _answer(self, session: str, decision: Decision) -> None:
        """A session that was not leased its GPUs by this plan waits for those that come back, or is refused."""
        if decision.action is not Action.WAIT:
            self._leases.note(session, decision)
        elif not self._given_back:  # else this plan is older than GPUs that it might get
            kind = (decision.blocked_by or {}).get("kind")
            self._leases.refuse(session, (Conflict if kind == "quota" else Unavailable)(decision.reason))

    def _tell(self, jobs: Iterable[str]) -> None:
        """Tell waiting jobs what they wait for and when they are likely to start, where that has changed."""
        now, book = self._clock(), self.book
        told = ((book.jobs.get(job_id), book.decision(job_id)) for job_id in jobs)
        self._ledger.feed.tell(
            [
                notices.job_reason(job, decision, now, book.last_event)
                for job, decision in told
                if job is not None and decision is not None and job.state is JobState.QUEUED
            ]
        )


def _runs(job: Job, attempt: int) -> bool:
    return job.state.holds_gpus and len(job.attempts) == attempt
