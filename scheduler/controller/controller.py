"""The loop: observe, take a snapshot, plan, carry the plan out and record it.

What must hold, over a `kill -9` at any instant:
- A change is durable before it is published and before it has any effect. So an attempt is on disk before the engine is
  asked to launch it, and after a restart the engine is asked for every attempt that holds GPUs according to the disk.
- Changes are decided one after another, in the event loop, each based on all earlier ones.
- Only a plan allocates GPUs, plans are carried out one at a time, and `Holdings` is the last check.
- No request waits for a plan, except for a session, which cannot start without one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import ChainMap
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import cast

from scheduler.controller import dependencies, gpuusage, notices, usage
from scheduler.controller.accountant import Accountant
from scheduler.controller.autoscaling import LackingJobs
from scheduler.controller.book import Book, Holdings
from scheduler.controller.checkpoints import Checkpoints
from scheduler.controller.delegatedjobs import DelegatedJobs
from scheduler.controller.deletion import Deletion
from scheduler.controller.dryruns import DryRuns
from scheduler.controller.feed import Watcher
from scheduler.controller.forecaster import Forecaster
from scheduler.controller.gpurecord import GpuRecord
from scheduler.controller.idleness import LOOK, Idleness
from scheduler.controller.jobs import Jobs
from scheduler.controller.noticeboxes import NoticeBoxes
from scheduler.controller.pausenotices import PauseNotices
from scheduler.controller.planloop import Decide, PlanLoop, PlannedActions
from scheduler.controller.schedules import Schedules
from scheduler.controller.sessionidle import SessionIdleness
from scheduler.controller.sessions import Sessions
from scheduler.controller.statewriter import StateWriter
from scheduler.controller.submissions import Submissions
from scheduler.controller.workertracker import Credentials
from scheduler.engines.backend import Backend
from scheduler.errors import RunaiError
from scheduler.model import Job, JobId, JobState, Node, Pool, Session, SessionId, Workload, WorkloadId, pool_at
from scheduler.policy import Action, Decision, Forecast, Plan, Snapshot, SnapshotPlanner, forecast
from scheduler.pool.changes import refuse_harm
from scheduler.pool.nodes import as_declared
from scheduler.store import ChangeSet, EventRecord, Store

log = logging.getLogger(__name__)


class Controller:
    """One for each open store. `ready` once it has found the workers that already run; `lost` once another scheduler
    owns the state. Its parts do the work: `Submissions`, `Jobs`, `Sessions`, `Deletion`.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        *,
        clock: Callable[[], float] = time.time,
        decide: Decide | None = None,
        credentials: Credentials = lambda job, attempt: {},
    ) -> None:
        self.ready = False
        self._files, self._inventory, self._traits = backend.files, backend.inventory, backend.traits
        self._clock = clock
        self.past_events, self.audit = store.events, store.audit
        self.used, self.recorded, self.demanded = store.used, store.recorded, store.demanded
        self.pool_history = store.pool_history
        self._writer = StateWriter(store, self._resync)
        self._plan_loop = PlanLoop(
            partial(self._decide, decide or SnapshotPlanner()), self._look, self._carry_out, clock
        )
        submissions = Submissions(self._writer, store, backend.traits, self._plan_loop.wake, clock)
        self.submit, self.submit_array, self.check = submissions.submit, submissions.submit_array, submissions.check
        self.schedules, self.notices = Schedules(self._writer, submissions, clock), NoticeBoxes(self._writer, clock)
        self._jobs = Jobs(self._writer, store, backend.engine, backend.traits, self._plan_loop.wake, clock, credentials)
        self.job, self.jobs, self.set_priority = self._jobs.find, self._jobs.list, self._jobs.set_priority
        self.cancel, self.pause, self.resume = self._jobs.cancel, self._jobs.pause, self._jobs.resume
        self.announce, self.exceeded = self._jobs.announce, self._jobs.exceeded
        self._sessions = Sessions(self._writer, store, backend.engine, backend.traits, self._plan_loop.wake, clock)
        self.grant, self.session_grant = self._sessions.grant, self._sessions.granted
        self.open_session, self.close_session = self._sessions.open, self._sessions.close
        self.expect_stop, self.warn_sessions = self._sessions.expect_stop, self._sessions.warn
        self.lend_session, self.take_back_session = self._sessions.lend, self._sessions.take_back
        self.recall_session, self.sessions_in_line = self._sessions.recall, self._sessions.in_line
        self._deletion = Deletion(self._writer, store, backend.files, clock)
        self._forecaster = Forecaster(self._forecast, self._publish_forecast, clock)
        self._lacking = LackingJobs(backend.autoscaling, lambda: self._decided)
        self._checkpoints = Checkpoints(backend.files, lambda: self._decided.holding.values(), self._jobs.saved)
        self.accountant = Accountant(self._writer, clock)
        self._idleness, self.session_idleness = Idleness(), SessionIdleness()
        self._looking: asyncio.TimerHandle | None = None
        self._blocked: Mapping[WorkloadId, Decision] = {}
        self._requested: Mapping[WorkloadId, Workload] = {}
        self._pause_notices = PauseNotices(self._jobs.announce)
        self._gpu_record = GpuRecord(self._writer, store.audit, clock)
        self._releases = 0
        self._plans_jobs = backend.delegation is None
        self._delegated = DelegatedJobs(backend.delegation, self._writer, self._plan_loop.wake)
        self.dry_run = DryRuns(
            self._writer, self.check, self.snapshot, self._runs_like, self._forecaster, self._delegated
        ).dry_run
        self._next_retry: float | None = None

    @property
    def book(self) -> Book:
        return self._writer.book

    @property
    def lost(self) -> asyncio.Event:
        return self._writer.lost

    @property
    def trouble(self) -> RunaiError | None:
        """Why the state cannot be written now; `None` if it can."""
        return self._writer.trouble

    @property
    def _decided(self) -> Book:
        return self._writer.decided

    # -- beginning and end --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the store, find the running workers, start to plan."""
        await self._writer.open()
        await self._inventory.open(self.refresh)
        await self._files.open()
        self._writer.set_nodes(self._nodes(self.book.pool))
        self._delegated.open(self.book.jobs.values())
        await self._jobs.open()
        await self._sessions.recover()
        await self._gpu_record.open()
        # They may have changed meanwhile, and what sessions use of them is no longer that of others.
        self._writer.set_nodes(self._nodes(self.book.pool))
        self._resync()
        self._plan_loop.open()
        self._forecaster.open()
        self._lacking.open()
        self._checkpoints.open()
        self.accountant.open()
        self._look_for_idle_jobs()
        self.ready = True

    async def stop(self) -> None:
        """Stop in good order: finish launches and write what was decided. Workers keep running."""
        await self._stop_looking()
        await self._jobs.close()
        with suppress(RunaiError):
            await self._writer.durable()
        await self._close()

    async def abort(self) -> None:
        """Stop at once, since another scheduler owns the state now: launch nothing more. Workers keep running."""
        await self._stop_looking()
        await self._jobs.abort()
        await self._close()

    async def _stop_looking(self) -> None:
        self.ready = False
        await self._plan_loop.close()
        self._delegated.close()
        await self._forecaster.close()
        await self._lacking.close()
        await self._checkpoints.close()
        self.accountant.close()
        if self._looking is not None:
            self._looking.cancel()
        await self._sessions.abandon()

    async def _close(self) -> None:
        self._writer.close()
        await self._files.close()
        await self._inventory.close()

    async def settle(self) -> None:
        """Wait until the controller is idle: all changes are durable, planned for and carried out by the engine.

        For tests, and for callers that drive a scheduler step by step.
        """
        parts = self._writer, self._plan_loop, self._jobs, self._sessions
        while any(part.busy for part in parts):
            for part in parts:
                await part.idle()

    def _resync(self) -> None:
        """Compare all workloads that hold GPUs with the durable state and with the status of their workers."""
        self._observe_nodes()
        self._gpu_record.note(self._decided.nodes)
        self._jobs.resync()
        self._plan_loop.wake()

    async def delete(self, job_id: JobId, by: str | None = None) -> None:
        """Delete a finished job with all its data; `by` is set if that is not its owner. Raises `Conflict` while it, or
        a job that needs it, is unfinished."""
        await self._deletion.delete(await self._jobs.decided(job_id), by)

    async def tidy(self) -> None:
        """Delete what is older than the pool keeps, finish interrupted deletions, and condense the record of use."""
        await self._deletion.finish()
        await self._writer.durable(self._writer.commit(ChangeSet(condensed=self._clock())))
        if (keep := self.book.pool.keep_days) is not None:
            await self._deletion.expire(self._clock() - keep * 86_400)
            await self.schedules.expire(self._clock() - keep * 86_400)

    # -- the pool -----------------------------------------------------------------------------------------

    async def apply(self, pool: Pool, by: str | None = None) -> None:
        """Make this the pool; the change and its author are durable when it returns. Raises `Conflict` where the change
        would break existing workloads."""
        decided = self._decided
        present: list[Job | Session] = [*decided.jobs.values(), *decided.sessions.values()]
        nodes = self._nodes(pool)
        refuse_harm(decided.pool, pool, (each.workload() for each in present), nodes)
        if pool == decided.pool:
            await self._writer.durable()
            self._set_nodes(nodes)
            return
        now = self._clock()
        events = tuple(notices.pool_changed(decided.pool, pool, now))
        # Until now it has decayed with the old half-life.
        half_life = decided.pool.settings.usage_half_life
        used = tuple([used.hold(0, now, half_life) for used in decided.usage.values()])
        change = ChangeSet(pool=pool, usage=used, events=events, audit=notices.audited(decided.pool, pool, by, now))
        await self._writer.durable(self._writer.commit(change, partial(self._set_nodes, nodes)))

    def _nodes(self, pool: Pool) -> tuple[Node, ...]:
        return as_declared(self._inventory.nodes(pool), pool)

    def refresh(self) -> None:
        """Read the nodes again."""
        if self.ready:
            self._set_nodes(self._nodes(self.book.pool))

    def _set_nodes(self, nodes: tuple[Node, ...]) -> None:
        if self._writer.set_nodes(nodes):  # other changes are frequent, and this looks at every workload
            self._observe_nodes()
        self._gpu_record.note(nodes)
        self._plan_loop.wake()

    def _observe_nodes(self) -> None:
        """End the workloads of nodes that are gone."""
        nodes = self._decided.nodes
        self._jobs.observe_nodes(nodes)
        self._sessions.observe_nodes(nodes)

    # -- what happened ------------------------------------------------------------------------------------

    def events(self, after: int | None = None) -> AsyncGenerator[EventRecord, None]:
        """Events after the one with the id `after`, then new ones as they come; only new ones where it is `None`."""
        return self._writer.feed.follow(after)

    def watch(self, watcher: Watcher) -> None:
        """Notify this watcher of everything that happens from now on."""
        self._writer.feed.watch(watcher)

    def watch_forecasts(self, tell_error: Callable[[float], None]) -> None:
        """Report the error, in seconds, of the first estimate of each start from now on."""
        self._forecaster.tell_error = tell_error

    @property
    def store_id(self) -> str:
        """The store to which the ids of events belong."""
        return self._writer.store_id

    def _look_for_idle_jobs(self) -> None:
        usage = gpuusage.by_job(self._inventory, self._decided, picks=self._traits.picks_gpus)
        self.session_idleness.look(self._decided.sessions.values(), usage, self._clock())
        self.accountant.look(usage, LOOK)
        for job in self._idleness.look(list(self._decided.holding.values()), usage, monotonic()):
            self._jobs.idled(job)
        self._looking = asyncio.get_running_loop().call_later(LOOK, self._look_for_idle_jobs)

    # -- plans --------------------------------------------------------------------------------------------

    def snapshot(self, pool: Pool | None = None) -> Snapshot:
        """The snapshot that the policy would get now, with `pool` instead of the current pool where it is given."""
        now = self._clock()
        return self._snapshot(now, self._held_back(self._pausing(now)), pool)

    def _snapshot(self, now: float, blocked: Mapping[WorkloadId, Decision], pool: Pool | None = None) -> Snapshot:
        decided = self._decided
        workloads = decided.workloads_but(blocked)
        if pool is None:
            pool, nodes = decided.pool_at(now), decided.nodes
        else:
            pool, nodes = pool_at(pool, now).pool, self.book.run_times.residuals.mark(self._nodes(pool))
        used = usage.shares(decided.usage, pool, nodes, now)
        return Snapshot(now, pool, nodes, (*workloads, *self._sessions.requested()), used)

    def _held_back(self, pausing: Mapping[str, float]) -> Mapping[WorkloadId, Decision]:
        """The jobs that wait for something other than GPUs."""
        blocked = dependencies.blocked(self._decided.dependent, self._decided.jobs, pausing)
        return {**blocked, **self._delegated.decisions(self._decided.jobs.values(), blocked)}

    def _look(self) -> Snapshot:
        now = self._clock()
        pausing = self._pausing(now)
        blocked = self._held_back(pausing)
        self._delegated.update(blocked, self._decided)
        snapshot = replace(self._snapshot(now, blocked), changed=self._changes(blocked))
        self._releases, self._blocked = self._decided.releases, blocked
        self._next_retry = min(pausing.values(), default=None)
        return snapshot

    def _changes(self, blocked: Mapping[WorkloadId, Decision]) -> Mapping[WorkloadId, Workload | None] | None:
        """The workloads that have changed for the planner since the last snapshot; `None`: any may have changed."""
        workloads, changed = self._decided.workloads, self._decided.take_changes()
        seen, self._requested = self._requested, {each.id: each for each in self._sessions.requested()}
        if changed is None:
            return None
        others = (*(blocked.keys() ^ self._blocked.keys()), *seen)
        found = {**changed, **{id: workloads.get(id) for id in others}}
        return {**{id: None if id in blocked else each for id, each in found.items()}, **self._requested}

    def _pausing(self, now: float) -> Mapping[str, float]:
        """The jobs that pause after a failure, and until when."""
        return self._jobs.pauses.look(self._decided.dependent, now, monotonic())

    def _decide(self, decide: Decide, snapshot: Snapshot) -> Plan:
        """The policy's plan, with the reasons of the jobs that are not in its snapshot."""
        plan = decide(snapshot)
        self._decided.look_ahead(snapshot.now)
        times = [at for at in (plan.again_at, self._next_retry, usage.again_at(snapshot)) if at is not None]
        plan = replace(plan, again_at=min(times, default=None))
        if not self._blocked:
            return plan
        layers = cast("tuple[dict[WorkloadId, Decision], ...]", (self._blocked, plan.decisions))  # which are only read
        return replace(plan, decisions=ChainMap({}, *layers))

    def _carry_out(self, planned: PlannedActions) -> None:
        self.book.plan = planned.plan
        self.book.pool_at(planned.snapshot.now)
        self._forecaster.look(planned.snapshot)
        self._lacking.look(planned.plan)
        holdings = Holdings(self._decided.nodes, self._decided.standing)
        self._jobs.nominate(planned.plan.promises)
        self._jobs.drop_nominations(planned.lost)
        for workload, decision in planned.acts.items():
            if decision.action is Action.START:
                self._start(workload, decision, holdings)
            elif (job := self._decided.jobs.get(workload)) is not None and self._plans_jobs:
                self._jobs.stop(job, decision)
        for job, placement in self._delegated.placed(self._decided, holdings):
            self._jobs.start(job, placement)
        for session in self._sessions.waiting():
            if session in planned.plan.decisions:
                self._answer(session, planned.plan.decisions[session])
        self._writer.feed.tell_of_plan()

    def _start(self, workload: WorkloadId, decision: Decision, holdings: Holdings) -> None:
        """Allocate GPUs to a waiting job or session, if it still waits and they still exist."""
        job = self._decided.jobs.get(workload)
        queued = job is not None and job.state is JobState.QUEUED
        if not queued and not self._sessions.expects(SessionId(workload)):
            return
        if not holdings.take(decision.placement):
            log.warning("The plan for %s is out of date: %s is no longer free.", workload, decision.placement)
        elif job is not None:
            self._jobs.start(job, decision.placement)
            self._forecaster.started(workload)
        else:
            self._sessions.lease(SessionId(workload), decision.placement)

    def _answer(self, session: SessionId, decision: Decision) -> None:
        """A session that gets no GPUs from this plan waits for GPUs that are being released, or is refused."""
        if decision.action is Action.WAIT and self._decided.releases != self._releases:
            return  # GPUs were released after the plan was made
        self._sessions.pass_over(SessionId(session), decision)

    def _forecast(self, snapshot: Snapshot) -> Forecast:
        """In another thread: when waiting workloads will start, where run times are known."""
        known = (
            self.book.run_times.similar
            or any(w.request.expected_runtime is not None for w in snapshot.workloads)
            or any(project.changes for project in snapshot.pool.projects)
        )
        return forecast(snapshot, partial(self._runs_like, None)) if known else Forecast()

    def _runs_like(self, submitted: Job | None, workload: Workload) -> Sequence[float]:
        """The run times of jobs like this workload, which belongs to an unfinished job or to a dry run."""
        if submitted is not None and workload.id == submitted.id:
            return self.book.run_times.runs_like(submitted)
        job = self.book.jobs.get(workload.id)
        return () if job is None else self.book.run_times.runs_like(job)

    def _publish_forecast(self, found: Forecast) -> float | None:
        self.book.forecast = found
        self._writer.feed.tell_of_plan()
        return self._pause_notices.look(found.pauses, self._decided.holding, self._clock())
