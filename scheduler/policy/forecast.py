"""Estimates when waiting jobs will start, by simulating the policy.

Jobs end when their expected run time is over or, where it is known how long similar jobs ran, as those that ran longer
than they have so far: some sooner, some later, in the proportion of the similar ones. If neither is known of a job,
jobs that wait for it have no estimate. Every plan is carried out at once, and no new jobs are submitted, so an estimate
is not a promise; `accuracy` says how far from it starts have been. The simulation is bounded by counts and never by
time, so the same snapshot gives the same forecast.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.model import (
    ONE,
    GuaranteeChange,
    JobId,
    Pool,
    Project,
    ProjectName,
    Request,
    Shape,
    Workload,
    WorkloadId,
)
from scheduler.policy.planner import Planner
from scheduler.policy.play import after
from scheduler.policy.similar import Draws, SimilarRunTimes, run_time
from scheduler.policy.types import Action, Decision, Plan, Snapshot

STEPS = 500
"""The most plans of a forecast …"""

GRAIN = 0.05
"""Ends that differ by less than this part of the time until then count as one, at the last of them."""

WARNED = 3600.0
"""How many seconds before a guarantee rises the owners of jobs that make room for it are warned."""

ASSUMED = 512
"""The most jobs that are assumed to use what a project will be guaranteed."""

LOOKS = 600_000
"""… and the most workloads that all of them process, so that a large pool is not simulated as far as a small one."""


Range = tuple[float, float]
"""The earliest and the latest start that is likely."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A running job gives its GPUs to `project` when the guarantee of that project rises `at` a time, shown in
    `timezone`. It is `certain` where jobs wait for the guarantee; otherwise the guarantee is assumed to be used.
    `until` is when the job is likely to continue."""

    at: float
    project: ProjectName
    timezone: str
    certain: bool
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The first start of every waiting workload (also of one that will be stopped), as far as it can be known.

    `until` is the instant at which the simulation was cut off: workloads without a start there start later. Where it is
    `None`, the starts of the others cannot be estimated. `ranges` is the earliest and the latest start that are likely
    (`accuracy.Accuracy`). `pauses` has the running jobs that make room when a guarantee rises.
    """

    starts: Mapping[WorkloadId, float] = field(default_factory=dict)
    until: float | None = None
    ranges: Mapping[WorkloadId, Range] = field(default_factory=dict)
    pauses: Mapping[WorkloadId, Pause] = field(default_factory=dict)


def rises_soon(pool: Pool, now: float) -> bool:
    """Whether a guarantee rises so soon that the owners of jobs in its way must be warned."""
    return any(p.changes[0].at <= now + WARNED and _rises(p) for p in pool.projects if p.changes)


def _rises(project: Project) -> bool:
    """Whether the next change of its guarantee raises it."""
    after, before = project.changes[0].guaranteed, project.guaranteed
    return before is not None and (after is None or after > before)


def _nothing_similar(workload: Workload) -> Sequence[float]:
    return ()


def forecast(snapshot: Snapshot, similar: SimilarRunTimes = _nothing_similar) -> Forecast:
    """Simulate the policy forward from a snapshot."""
    future = _Future(snapshot, similar)
    try:
        for _ in range(max(1, min(STEPS, LOOKS // max(1, len(snapshot.workloads))))):
            if future.over or not future.step():
                return future.forecast()
        return future.forecast(future.now)
    finally:
        future.dissolve()


class _Future:
    """The pool as it will be, one plan or one end after the other."""

    def __init__(self, snapshot: Snapshot, similar: SimilarRunTimes) -> None:
        self._begin = self.now = snapshot.now
        self._similar = similar
        self._draws = Draws()
        self._run_times: dict[tuple[WorkloadId, float | None], float | None] = {}
        self.starts: dict[WorkloadId, float] = {}
        self.unstarted = {workload.id for workload in snapshot.workloads if not workload.running}
        self._usage = snapshot.usage
        self._pool, self._nodes = snapshot.pool, snapshot.nodes
        self._pauses: dict[WorkloadId, Pause] = {}
        self._assumed = set[WorkloadId]()
        self._rising: dict[ProjectName, GuaranteeChange] = {}
        self._runs = {workload.id for workload in snapshot.workloads if workload.running}
        self._planner = Planner(snapshot.pool, snapshot.nodes, snapshot.workloads)
        self._workloads = {workload.id: workload for workload in snapshot.workloads}
        self._leaving = [workload.id for workload in snapshot.workloads if workload.stopping]
        self._ends: list[tuple[float, WorkloadId]] = []
        for workload in sorted([each for each in snapshot.workloads if each.running], key=_of_a_kind):
            self._note_end(workload)

    def step(self) -> bool:
        """Make a plan and carry it out, or advance to the next end; false where nothing more is known to happen."""
        if self._change_guarantees():
            self._planner.dissolve()
            self._planner = Planner(self._pool, self._nodes, self._workloads.values())
        plan = self._planner.plan(self.now, self._usage)
        self._note_pauses(plan)
        for id, decision in plan.changes.items():
            workload = self._workloads[id] = after(self._workloads[id], decision, self.now)
            self._planner.put(workload)
            if decision.action in (Action.START, Action.MOVE):
                self._note_end(workload)
            if decision.action is Action.START:
                self.unstarted.discard(id)
                self.starts.setdefault(id, self.now)
            elif decision.action is Action.STOP and id not in self.starts:
                self.unstarted.add(id)
        if self._leaving or any(map(_gives_back, plan.changes.values())):
            self._release_stopping(plan)
            return True  # at the same instant: others may fit now
        return self._advance(plan.again_at)

    def forecast(self, until: float | None = None) -> Forecast:
        """The results, up to an instant."""
        starts = {id: start for id, start in self.starts.items() if id not in self._assumed}
        pauses = {id: replace(pause, until=starts.get(id)) for id, pause in self._pauses.items()}
        return Forecast(starts, until, pauses=pauses)

    @property
    def over(self) -> bool:
        """Whether all waiting workloads have started, and no guarantee rises so soon that others must be warned."""
        return not self.unstarted and not rises_soon(self._pool, self._begin)

    def _change_guarantees(self) -> bool:
        """Apply the changes of guarantees that are due; whether there were any."""
        due = {p.name: p.changes[0] for p in self._pool.projects if p.changes and p.changes[0].at <= self.now}
        if not due:
            return False
        parents = {project.parent for project in self._pool.projects}
        for project in self._pool.projects:
            if project.name in due and _rises(project):
                self._rising[project.name] = due[project.name]
                if project.name not in parents:
                    self._assume_use(project, due[project.name])
        changed = [
            replace(p, guaranteed=due[p.name].guaranteed, changes=p.changes[1:]) if p.name in due else p
            for p in self._pool.projects
        ]
        self._pool = replace(self._pool, projects=tuple(changed))
        return True

    def _assume_use(self, project: Project, change: GuaranteeChange) -> None:
        """Assume that jobs of one GPU use the unused part of a project's guarantee until the next change."""
        asked = sum([each.request.gpus for each in self._workloads.values() if each.request.project == project.name])
        missing = ((change.guaranteed or 0) - asked) // ONE
        runtime = project.changes[1].at - change.at if len(project.changes) > 1 else None
        for number in range(min(missing, ASSUMED)):
            id = JobId(f"{project.name} at {change.at}: {number}")
            request = Request(project.name, shape=Shape(ONE), expected_runtime=runtime)
            self._workloads[id] = Workload(id, request, submitted=self.now)
            self._assumed.add(id)

    def _note_pauses(self, plan: Plan) -> None:
        """Record the running jobs that are stopped because a guarantee rises."""
        for id, decision in plan.changes.items() if self._rising else ():
            change = self._rising.get(self._workloads[id].request.project)
            if decision.action is not Action.START or change is None:
                continue
            for victim in decision.after:
                stopped = plan.changes.get(victim)
                if victim in self._runs and stopped is not None and stopped.action is Action.STOP:
                    before = self._pauses.get(victim)
                    certain = id not in self._assumed or (before is not None and before.certain)
                    project = self._workloads[id].request.project
                    self._pauses[victim] = Pause(change.at, project, change.timezone, certain)

    def dissolve(self) -> None:
        """Release its memory."""
        self._planner.dissolve()

    def _release_stopping(self, plan: Plan) -> None:
        """Workloads that were stopping are gone, or continue in the places that they are nominated for."""
        for id in self._leaving:
            decision = plan.decisions[id]
            if decision.placement:
                workload = self._workloads[id] = after(self._workloads[id], decision, self.now)
                self._planner.put(workload)
                self._note_end(workload)
            else:
                self._remove([id])
        self._leaving = []

    def _advance(self, again_at: float | None) -> bool:
        while self._ends and not self._holds(*self._ends[0]):
            heapq.heappop(self._ends)
        times = [self._ends[0][0]] if self._ends else []
        if again_at is not None:
            times.append(again_at)
        if not times:
            return False
        first = max(self.now, min(times))
        self._rising.clear()
        last = first + GRAIN * (first - self._begin)
        self.now = first
        while self._ends and self._ends[0][0] <= last:
            end, id = heapq.heappop(self._ends)
            if self._holds(end, id):
                self._remove([id])
                self.now = max(self.now, end)
        return True

    def _note_end(self, workload: Workload) -> None:
        end = self._end(workload)
        if end is not None:
            heapq.heappush(self._ends, (end, workload.id))

    def _holds(self, end: float, id: WorkloadId) -> bool:
        """Whether this end is still valid: the workload may have been stopped and started again meanwhile."""
        workload = self._workloads.get(id)
        return workload is not None and self._end(workload) == end

    def _remove(self, ids: Iterable[WorkloadId]) -> None:
        for id in ids:
            del self._workloads[id]
            self._planner.drop(id)

    def _end(self, workload: Workload) -> float | None:
        """When a running job is expected to end; one that is just being started begins with the snapshot."""
        if not workload.running or workload.stopping:
            return None
        started = self._begin if workload.started is None else workload.started
        attempt = workload.id, workload.started
        if attempt not in self._run_times:
            self._run_times[attempt] = self._run_time(workload, self.now - started)
        runtime = self._run_times[attempt]
        return None if runtime is None else started + runtime

    def _run_time(self, workload: Workload, ran: float) -> float | None:
        """The run time of an attempt that has run for `ran` seconds; work of earlier attempts counts."""
        runs = self._similar(workload)
        if not runs:
            return workload.request.expected_runtime
        before = workload.served * ONE / workload.request.gpus if workload.request.gpus else 0.0
        return run_time(runs, before + ran, self._draws.next()) - before


def _of_a_kind(workload: Workload) -> tuple[str, int, float, str]:
    """A sort key that puts similar jobs next to each other, by how long they have run: draws are spread evenly over
    them."""
    started = workload.started
    return workload.request.project, workload.request.gpus, float("inf") if started is None else started, workload.id


def _gives_back(decision: Decision) -> bool:
    return decision.action not in (Action.START, Action.GROW) or bool(decision.after)
