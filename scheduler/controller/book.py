"""The book: all unfinished jobs and sessions, in memory, as immutable values.

The controller keeps two. The one that everybody reads has what is durable. The decided one also has the changes that
are being written, so that the next decision need not wait for the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from scheduler.controller.dependencies import is_dependent
from scheduler.controller.jobindex import JobIndex
from scheduler.controller.runtimes import RunTimes
from scheduler.controller.serverstops import StopWarning
from scheduler.model import (
    ONE,
    GpuKey,
    InForce,
    Job,
    JobId,
    JobState,
    Milli,
    Node,
    NodeName,
    NoticeBox,
    Pool,
    PoolInForce,
    ProjectName,
    ProjectUsage,
    Schedule,
    ScheduleId,
    Session,
    SessionId,
    SessionState,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
    held_by,
)
from scheduler.policy import Decision, Forecast, Plan
from scheduler.store import ChangeSet


class Book:
    """`jobs` are the unfinished ones, `sessions` those that have not ended, `plan`, `forecast`, `stop_warnings`
    and `memory_warnings` are the latest, `usage` is the recent use of each project, and use has been recorded until
    `accounted_until`. Notices have been made of all events up to `noticed`.

    `releases` counts how often GPUs were released: while the number is the same, there was no release.
    """

    def __init__(
        self,
        pool: Pool | None = None,
        nodes: tuple[Node, ...] = (),
        run_times: RunTimes | None = None,
        windows: InForce | None = None,
    ) -> None:
        self.pool = pool or Pool()
        self.nodes = nodes
        self.run_times = run_times or RunTimes()
        self.plan = Plan(decisions={}, projects={})
        self.forecast = Forecast()
        self.stop_warnings: Mapping[SessionId, StopWarning] = {}
        self.memory_warnings: Mapping[SessionId, str] = {}
        self.before_events = self.last_event = self.noticed = 0
        self.releases = 0
        self.usage: dict[ProjectName, ProjectUsage] = {}
        self.accounted_until = 0.0
        self._jobs = JobIndex()
        self._sessions: dict[SessionId, Session] = {}
        self._schedules: dict[ScheduleId, Schedule] = {}
        self._notice_boxes: dict[UserName, NoticeBox] = {}
        self._workloads: dict[WorkloadId, Workload] = {}
        self._dependent: dict[JobId, Job] = {}
        self._changed: dict[WorkloadId, None] | None = None
        self._in_force: tuple[Pool, PoolInForce] | None = None
        self._windows = windows or InForce()

    def pool_at(self, now: float) -> Pool:
        """The pool with the guarantees that are in force now."""
        if self._in_force is None or self._in_force[0] is not self.pool or not self._in_force[1].holds_at(now):
            self._in_force = self.pool, self._windows.at(self.pool, now)
        return self._in_force[1].pool

    def look_ahead(self, now: float) -> None:
        """Work out, in another thread, the guarantees that are in force after the next change of any."""
        self._windows.look_ahead(self.pool, now)

    @property
    def in_force(self) -> Pool:
        """The same, as of the last call of `pool_at`, for the latest plan or later."""
        known = self._in_force
        return self.pool if known is None or known[0] is not self.pool else known[1].pool

    @property
    def jobs(self) -> Mapping[WorkloadId, Job]:
        return MappingProxyType(self._jobs.jobs)

    @property
    def holding(self) -> Mapping[JobId, Job]:
        """The jobs that hold GPUs."""
        return MappingProxyType(self._jobs.holding)

    @property
    def states(self) -> Mapping[JobState, int]:
        """How many unfinished jobs are in each state."""
        return MappingProxyType(self._jobs.states)

    @property
    def queued(self) -> Mapping[ProjectName, int]:
        """How many jobs each project has queued."""
        return {project: counts[JobState.QUEUED] for project, counts in self._jobs.by_project.items()}

    def states_of(self, user: UserName) -> Counter[JobState]:
        """How many of a user's jobs are in each state, for those that are unfinished."""
        return self._jobs.by_user.get(user, Counter())

    def states_in(self, project: ProjectName) -> Counter[JobState]:
        """The same for the jobs of a project."""
        return self._jobs.by_project.get(project, Counter())

    @property
    def sessions(self) -> Mapping[SessionId, Session]:
        return MappingProxyType(self._sessions)

    @property
    def schedules(self) -> Mapping[ScheduleId, Schedule]:
        return MappingProxyType(self._schedules)

    @property
    def notice_boxes(self) -> Mapping[UserName, NoticeBox]:
        return MappingProxyType(self._notice_boxes)

    @property
    def workloads(self) -> Mapping[WorkloadId, Workload]:
        """The workloads that hold GPUs or wait for them, as the policy sees them."""
        return MappingProxyType(self._workloads)

    def workloads_but(self, left_out: Collection[WorkloadId]) -> Collection[Workload]:
        """All workloads but these."""
        if not left_out:
            return self._workloads.values()
        others = self._workloads.copy()
        for id in left_out:
            others.pop(id, None)
        return others.values()

    @property
    def standing(self) -> Iterator[Workload]:
        """The workloads that hold GPUs."""
        return (self._workloads[id] for ids in (self._jobs.holding, self._sessions) for id in ids)

    def take_changes(self) -> Mapping[WorkloadId, Workload | None] | None:
        """The workloads that have changed or ended (`None`) since the last call; on the first call `None`: any may have
        changed."""
        changed, self._changed = self._changed, {}
        return None if changed is None else {id: self._workloads.get(id) for id in changed}

    @property
    def dependent(self) -> Collection[Job]:
        """The jobs that may have to wait for other jobs."""
        return self._dependent.values()

    def jobs_of(self, user: UserName) -> Mapping[JobId, Job]:
        """A user's unfinished jobs, the oldest first."""
        return MappingProxyType(self._jobs.of_user(user))

    def find(self, job_id: JobId) -> Job | None:
        """A job that is unfinished or has ended recently."""
        return self._jobs.find(job_id)

    def decision(self, job_id: JobId) -> Decision | None:
        """What the latest plan decided for a job, with the latest estimate of when it starts."""
        decision = self.plan.decisions.get(job_id)
        start = self.forecast.starts.get(job_id)
        if decision is None or start is None:
            return decision
        return replace(decision, estimated_start=start, start_range=self.forecast.ranges.get(job_id))

    def copy(self) -> Book:
        twin = Book(self.pool, self.nodes, self.run_times, self._windows)
        twin.plan, twin.forecast, twin.last_event = self.plan, self.forecast, self.last_event
        twin.stop_warnings, twin.memory_warnings = self.stop_warnings, self.memory_warnings
        twin.releases, twin.usage = self.releases, dict(self.usage)
        twin.accounted_until = self.accounted_until
        twin._jobs, twin._sessions = self._jobs.copy(), dict(self._sessions)
        twin._schedules, twin._notice_boxes = dict(self._schedules), dict(self._notice_boxes)
        twin.noticed = self.noticed
        twin._workloads, twin._dependent = dict(self._workloads), dict(self._dependent)
        return twin

    def put(self, change: ChangeSet) -> None:
        """Apply a change."""
        self._jobs.forget(change.deleted)
        for job in (*change.submitted, *change.jobs):
            self._put_job(job)
        for session in change.sessions:
            self._put_session(session)
        self._schedules.update({schedule.id: schedule for schedule in change.schedules})
        for id in change.removed:
            self._schedules.pop(id, None)
        self._notice_boxes.update({box.user: box for box in change.notice_boxes})
        if change.noticed is not None:
            self.noticed = change.noticed
        self.usage.update({used.project: used for used in change.usage})
        if change.accounted_until is not None:
            self.accounted_until = change.accounted_until
        if change.pool is not None:
            self.pool = change.pool

    def _put_job(self, job: Job) -> None:
        self.run_times.note(job)
        self._jobs.put(job)
        if job.state.final:
            self._dependent.pop(job.id, None)
        elif is_dependent(job):
            self._dependent[job.id] = job
        over = job.state.final or job.state is JobState.PAUSED
        self._put_workload(job.id, None if over else self.run_times.workload(job))

    def _put_session(self, session: Session) -> None:
        before = self._sessions.get(session.id)
        if before is not None and held_by(session.placement) < held_by(before.placement):
            self.releases += 1
        if session.state is SessionState.ENDED:
            self._sessions.pop(session.id, None)
            self._put_workload(session.id, None)
        else:
            self._sessions[session.id] = session
            self._put_workload(session.id, session.workload())

    def _put_workload(self, id: WorkloadId, workload: Workload | None) -> None:
        before = self._workloads.get(id)
        if before is not None and before.running and not (workload is not None and workload.running):
            self.releases += 1
        if self._changed is not None:
            self._changed[id] = None
        if workload is None:
            self._workloads.pop(id, None)
        else:
            self._workloads[id] = workload


class Holdings:
    """How much of each GPU is allocated. It is the last check before a plan is carried out: no GPU is allocated
    twice."""

    def __init__(self, nodes: Iterable[Node], workloads: Iterable[Workload]) -> None:
        self._gpus = {node.name: node.gpus for node in nodes}
        self._taken: dict[GpuKey, Milli] = {}
        for workload in workloads:
            self._add(workload.placement)

    def take(self, placement: tuple[WorkerPlacement, ...]) -> bool:
        """Allocate what a placement needs; false if it has no workers, or if not all of it exists and is free."""
        needs: dict[GpuKey, Milli] = {}
        for worker in placement:
            if worker.node not in self._gpus:
                return False
            for gpu in worker.gpus:
                key = GpuKey((worker.node, gpu))
                needs[key] = needs.get(key, 0) + worker.share
        for (node, gpu), share in needs.items():
            if gpu >= self._gpus[node] or self._taken.get(GpuKey((node, gpu)), 0) + share > ONE:
                return False
        self._add(placement)
        return bool(placement)

    def number(self, workers: Sequence[tuple[NodeName, int]]) -> tuple[WorkerPlacement, ...]:
        """Allocate so many whole GPUs of a node to each worker, the lowest free numbers first; empty if a node is
        missing, or not all of them are free."""
        found: list[WorkerPlacement] = []
        for node, gpus in workers:
            taken = {gpu for worker in found if worker.node == node for gpu in worker.gpus}
            free = (
                gpu
                for gpu in range(self._gpus.get(node, 0))
                if gpu not in taken and not self._taken.get(GpuKey((node, gpu)))
            )
            found.append(WorkerPlacement(node, tuple(islice(free, gpus))))
        placement = tuple(found)
        whole = all(len(worker.gpus) == gpus for worker, (_, gpus) in zip(found, workers, strict=True))
        return placement if whole and self.take(placement) else ()

    def _add(self, placement: tuple[WorkerPlacement, ...]) -> None:
        for worker in placement:
            for gpu in worker.gpus:
                key = GpuKey((worker.node, gpu))
                self._taken[key] = self._taken.get(key, 0) + worker.share
