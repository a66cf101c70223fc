"""Simulates a trace with the production policy and a virtual clock.

The policy sees what it sees in production: what runs, what waits, and no duration that nobody declared. Decisions are
carried out as the controller does: a start with nothing in its way happens at once, a stop gives the job `saving`
seconds (it holds its GPUs and makes no progress), then it is queued again with the age it had; its next start spends
`restarting` seconds before it makes progress. Work since the last checkpoint is lost only where jobs save by
themselves. An elastic job changes its size at once, as often as it helps.

Work is conserved: every job does exactly its GPUs × duration of work, however often it is stopped.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.errors import Invalid
from scheduler.model import (
    ONE,
    GpuKey,
    JobId,
    Milli,
    Node,
    Pool,
    Request,
    Shape,
    WorkerPlacement,
    Workload,
    WorkloadId,
    gpu_count,
    held_by,
)
from scheduler.policy import Action, Decision, Plan, Planner, Residuals
from scheduler.simulation.baselines import Run, Span
from scheduler.simulation.calendar import Calendar
from scheduler.simulation.forecastaccuracy import ForecastAccuracy
from scheduler.simulation.sessions import Session
from scheduler.simulation.slowness import Slowness
from scheduler.simulation.trace import Trace, TraceJob

NOISE = 0.03
"""How far apart the throughputs of attempts lie that ran equally fast (the deviation of their logarithms)."""

ALWAYS = float("inf")
"""When a job last saved its state that saves it whenever it is stopped."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a stop costs, in seconds.

    A job saves its state when it is asked to, or, with `checkpoint_every`, only by itself and so often: then a stop
    loses what it did since.
    """

    saving: float = 15.0
    restarting: float = 45.0
    checkpoint_every: float | None = None


@dataclass(slots=True)
class _Progress:
    """A job on its way. `remaining` is seconds of work at full size, `since` when that was last brought up to date."""

    job: TraceJob
    request: Request
    remaining: float
    workload: Workload
    placement: tuple[WorkerPlacement, ...] = ()
    since: float = 0.0
    overhead: float = 0.0
    version: int = 0
    stopping: bool = False
    spans: list[Span] = field(default_factory=list)
    stops: int = 0
    lost: float = 0.0
    held_from: float = 0.0


NOBODY = JobId("")
"""The subject of an event that concerns a whole cycle."""


class _Clock:
    """Events in order of time; those that no longer hold (an end that a stop put off) are passed over."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, str, WorkloadId, int]] = []
        self._count = itertools.count()

    def at(self, time: float, what: str, job: WorkloadId, version: int = 0) -> None:
        heapq.heappush(self._events, (time, next(self._count), what, job, version))

    def next(self) -> tuple[float, list[tuple[str, WorkloadId, int]]] | None:
        """Everything that happens next, together."""
        if not self._events:
            return None
        time = self._events[0][0]
        together = []
        while self._events and self._events[0][0] == time:
            _, _, what, job, version = heapq.heappop(self._events)
            together.append((what, job, version))
        return time, together


class Player:
    """One run of the policy over a trace. `every` (seconds) gathers what happens within it into one cycle; 0: none.

    `sessions` open and close meanwhile, on the build nodes among `nodes`; how they fared is in `opened` afterwards. The
    policy is told on which type of GPU a job runs how fast, unless `throughputs_known` is false, and with `saves_known`
    that jobs save their state when they are asked to, where they do. `estimates` is what waiting jobs are told, if they
    are. Nor is it told of `slowness`, but learns it with `residuals` from what jobs reach.
    With `requests`, those of the jobs are known, and jobs that never start are left out.
    """

    def __init__(
        self,
        trace: Trace,
        pool: Pool,
        nodes: Iterable[Node],
        costs: Costs,
        *,
        every: float = 0.0,
        sessions: Sequence[Session] = (),
        throughputs_known: bool = True,
        saves_known: bool = False,
        estimates: ForecastAccuracy | None = None,
        slowness: Slowness | None = None,
        residuals: Residuals | None = None,
        requests: Mapping[WorkloadId, Request] | None = None,
    ) -> None:
        self.trace = trace
        self.calendar = Calendar(replace(pool, settings=replace(pool.settings, resize_interval=0.0)))
        self.nodes = tuple(nodes)
        self.types = {node.name: node.gpu_type for node in self.nodes}
        self.costs = costs
        self.every = every
        self.saved = ALWAYS if saves_known and costs.checkpoint_every is None else None
        self.estimates = estimates
        self.slowness, self.residuals = slowness, residuals
        self.clock = _Clock()
        self.planner = Planner(self.calendar.pool, self.nodes)
        self.waiting_or_running: dict[WorkloadId, _Progress] = {}
        self.sessions = {session.job.id: session for session in sessions}
        widest = max((node.gpus for node in self.nodes), default=8)
        self.requests = requests
        known = requests or {job.id: request_of(job, widest, throughputs_known) for job in trace.jobs}
        self.arriving = {job.id: (job, known[job.id]) for job in trace.jobs}
        self.arriving |= {id: (session.job, session.request) for id, session in self.sessions.items()}
        self.done: list[Run] = []
        self.opened: list[Run] = []
        self.cycles = 0
        self.nominated: set[WorkloadId] = set()
        self.saves: list[tuple[float, WorkloadId, int]] = []
        self._cycle_at: float | None = None
        self._last = 0.0

    def play(self) -> tuple[Run, ...]:
        for job, _ in self.arriving.values():
            self.clock.at(job.submitted, "arrive", job.id)
        while (happening := self.clock.next()) is not None:
            now, events = happening
            self._last = now
            changed = [self._happen(what, job, version, now) for what, job, version in events]
            if any(changed) and self._cycle_at is None:
                self._cycle_at = now + self.every
                if self.every:
                    self.clock.at(self._cycle_at, "cycle", NOBODY, -1)
            if self._cycle_at is not None and self._cycle_at <= now:
                self._cycle_at = None
                self._cycle(now)
        if self.waiting_or_running and self.requests is None:
            raise self._stuck(next(iter(self.waiting_or_running.values())))
        return tuple(self.done)

    def _stuck(self, progress: _Progress) -> Invalid:
        job = progress.job
        why = self.planner.plan(self._last).decisions[job.id].reason
        return Invalid(
            f"Job {job.id} of {job.project} wants {gpu_count(job.gpus)} and never starts on this pool: {why}",
            field="gpus",
        )

    # -- what happens -------------------------------------------------------------------------------------

    def _happen(self, what: str, name: WorkloadId, version: int, now: float) -> bool:
        if what == "arrive":
            self._arrive(*self.arriving.pop(name), now)
            return True
        if what == "cycle":
            return version == self.cycles  # what an earlier plan asked for does not hold any more
        progress = self.waiting_or_running.get(name)
        if progress is None or progress.version != version:
            return False
        if what == "end":
            self._end(progress, now)
        else:
            self._stopped(progress, now)
        return True

    def _arrive(self, job: TraceJob, request: Request, now: float) -> None:
        workload = Workload(job.id, request, now)
        self.waiting_or_running[job.id] = _Progress(job, request, job.duration, workload)
        self.planner.put(workload)
        if self.estimates is not None:
            self.estimates.arrived(job)

    def _end(self, progress: _Progress, now: float) -> None:
        self._close_span(progress, now)
        del self.waiting_or_running[progress.job.id]
        self.planner.drop(progress.job.id)
        if self.estimates is not None:
            self.estimates.ended(progress.job)
        if self.residuals is not None:
            self._learn(progress, self.residuals)
        session = self.sessions.get(progress.job.id)
        if session is not None:
            self.opened.append(Run(progress.job, tuple(progress.spans), idle=1 - session.busy))
        else:
            self.done.append(Run(progress.job, tuple(progress.spans), progress.stops, progress.lost))

    def _learn(self, progress: _Progress, residuals: Residuals) -> None:
        """What its last attempt reached, as it would have reported it: to a few per cent the same each time."""
        job, placement = progress.job, progress.placement
        noise = random.Random(job.id).lognormvariate(0, NOISE)
        gpus = (GpuKey((worker.node, gpu)) for worker in placement for gpu in worker.gpus)
        kind = (job.project, job.user, job.gpus, len(placement), self.types[placement[0].node])
        if residuals.learn(kind, self._speed(progress) * noise, gpus):
            self.planner.set_nodes(residuals.mark(self.nodes))

    def _stopped(self, progress: _Progress, now: float) -> None:
        """It has saved itself and is gone: queued again, with the age it had."""
        self._close_span(progress, now)
        progress.placement = ()
        progress.stopping = False
        self._now_is(
            progress,
            replace(
                progress.workload,
                running=False,
                stopping=False,
                started=None,
                checkpointed=None,
                placement=(),
                served=progress.workload.served_until(now),
            ),
        )

    # -- what the policy decides --------------------------------------------------------------------------

    def _cycle(self, now: float) -> None:
        self.cycles += 1
        if self.costs.checkpoint_every is not None:
            self._note_saves(now, self.costs.checkpoint_every)
        if self.calendar.advance(now):
            self.planner.dissolve()
            nodes = self.nodes if self.residuals is None else self.residuals.mark(self.nodes)
            self.planner = Planner(self.calendar.pool, nodes, [p.workload for p in self.waiting_or_running.values()])
        plan = self.planner.plan(now)
        self._keep_promises(plan)
        for name, decision in plan.changes.items():
            self._carry_out(self.waiting_or_running[name], decision, now)
        busy = bool(plan.changes or self.arriving or any(p.placement for p in self.waiting_or_running.values()))
        if plan.again_at is not None and self.waiting_or_running and not self.calendar.in_vain(busy):
            self.clock.at(max(plan.again_at, now + 1.0), "cycle", NOBODY, self.cycles)
        if self.estimates is not None:
            standing = (progress.workload for progress in self.waiting_or_running.values())
            self.estimates.look(now, self.calendar.pool, self.nodes, standing)

    def _keep_promises(self, plan: Plan) -> None:
        """Who waits for others to leave, or leaves to go on elsewhere, is nominated for its places while plans honour
        that."""
        for name in sorted(self.nominated):
            progress = self.waiting_or_running[name]
            nomination = progress.workload.nomination
            if plan.decisions[name].placement[: len(nomination)] != nomination:
                self._now_is(progress, replace(progress.workload, nomination=()))
        for name, places in plan.promises.items():
            progress = self.waiting_or_running[name]
            if progress.workload.nomination != places:
                self._now_is(progress, replace(progress.workload, nomination=places))

    def _carry_out(self, progress: _Progress, decision: Decision, now: float) -> None:
        if decision.action is Action.START and not decision.after:
            self._run_on(progress, decision.placement, now, restart=progress.stops > 0)
            if self.estimates is not None:
                self.estimates.started(progress.job.id, now)
        elif decision.action in (Action.STOP, Action.MOVE) or decision.after:
            if progress.workload.running and not progress.stopping:
                self._begin_stop(progress, now, decision.placement)
        elif decision.action in (Action.GROW, Action.SHRINK):
            self._bring_up_to_date(progress, now)
            self._close_span(progress, now)
            self._run_on(progress, decision.placement, now, restart=True)

    def _run_on(
        self, progress: _Progress, placement: tuple[WorkerPlacement, ...], now: float, *, restart: bool
    ) -> None:
        progress.placement = placement
        progress.since = progress.held_from = now
        if restart:
            progress.overhead = self.costs.restarting
            progress.lost += self.costs.restarting * held_by(progress.placement) / ONE
        progress.version += 1
        running = replace(
            progress.workload,
            running=True,
            started=now,
            placement=placement,
            nomination=(),
            checkpointed=self.saved,
        )
        self._now_is(progress, running)
        end = now + progress.overhead + progress.remaining / self._speed(progress)
        self.clock.at(end, "end", progress.job.id, progress.version)
        every = self.costs.checkpoint_every
        if every is not None:
            done = progress.job.duration - progress.remaining
            at = now + progress.overhead + (every - done % every) / self._speed(progress)
            heapq.heappush(self.saves, (at, progress.job.id, progress.version))

    def _note_saves(self, now: float, every: float) -> None:
        """Tell the policy when jobs last saved themselves, as in production."""
        while self.saves and self.saves[0][0] <= now:
            at, name, version = heapq.heappop(self.saves)
            progress = self.waiting_or_running.get(name)
            if progress is not None and progress.version == version:
                apart = every / self._speed(progress)
                last = at + (now - at) // apart * apart
                self._now_is(progress, replace(progress.workload, checkpointed=last))
                heapq.heappush(self.saves, (last + apart, name, version))

    def _begin_stop(self, progress: _Progress, now: float, nomination: tuple[WorkerPlacement, ...] = ()) -> None:
        """It saves its state and leaves; with a nomination to go on there, else as one that was preempted."""
        self._bring_up_to_date(progress, now)
        every = self.costs.checkpoint_every
        if every is not None:
            saved = (progress.job.duration - progress.remaining) // every * every
            lost = progress.job.duration - saved - progress.remaining
            progress.remaining += lost
            progress.lost += lost * progress.job.gpus / ONE
        progress.stops += 1
        progress.stopping = True
        progress.version += 1
        progress.lost += self.costs.saving * held_by(progress.placement) / ONE
        stopping = replace(progress.workload, stopping=True, nomination=nomination)
        if not nomination:
            stopping = replace(stopping, preempted=now, preemptions=stopping.preemptions + 1)
        self._now_is(progress, stopping)
        self.clock.at(now + self.costs.saving, "stopped", progress.job.id, progress.version)

    def _now_is(self, progress: _Progress, workload: Workload) -> None:
        progress.workload = workload
        (self.nominated.add if workload.nomination else self.nominated.discard)(workload.id)
        self.planner.put(workload)

    def _bring_up_to_date(self, progress: _Progress, now: float) -> None:
        """Take the work done since the last look off what remains, and what it saved on the way."""
        productive = now - progress.since - progress.overhead
        unspent = max(0.0, -productive)  # it is stopped while it still restarts: that much is not lost after all
        progress.lost -= unspent * held_by(progress.placement) / ONE
        progress.overhead = 0.0
        before = progress.remaining
        progress.remaining = max(0.0, before - max(0.0, productive) * self._speed(progress))
        progress.since = now

    def _close_span(self, progress: _Progress, now: float) -> None:
        progress.spans.append(Span(progress.held_from, now, held_by(progress.placement)))

    def _speed(self, progress: _Progress) -> float:
        """Work done in a second: 1 at full size on the fastest GPUs, in proportion to its workers and the slowest of
        them."""
        throughputs: dict[str | None, Milli] = dict(progress.job.throughputs)
        slowest = min(throughputs.get(self.types[worker.node], ONE) for worker in progress.placement)
        speed = len(progress.placement) / progress.request.workers * slowest / ONE
        return speed if self.slowness is None else speed / self.slowness.of(progress.job, progress.placement)


def request_of(job: TraceJob, gpus_per_node: int, throughputs_known: bool = True) -> Request:
    """A trace's job as a request: one worker if a node takes it, else the fewest equal ones that do."""
    workers = job.workers or max(1, -(-job.gpus // (gpus_per_node * ONE)))
    while not job.workers and job.gpus > ONE and job.gpus // ONE % workers:
        workers += 1
    return Request(
        project=job.project,
        user=job.user,
        shape=Shape(gpus=job.gpus // workers),
        workers=workers,
        min_workers=job.min_workers or workers,
        priority=job.priority,
        preemptible=job.preemptible,
        expected_runtime=job.expected,
        throughputs=job.throughputs if throughputs_known else (),
    )
