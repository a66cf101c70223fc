"""What runs, ran or waits: jobs with their attempts, sessions, and the workloads of the policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.model.amounts import ONE, Milli
from scheduler.model.names import GpuType, GroupName, JobId, NodeName, ScheduleId, SessionId, UserName, WorkloadId
from scheduler.model.requested import Program, Request


class JobState(StrEnum):
    """`queued → starting → running → (stopping → queued again | succeeded | failed | cancelled)`, and `paused`."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def holds_gpus(self) -> bool:
        return self in _HOLDING

    @property
    def final(self) -> bool:
        return self in _FINAL


_HOLDING = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})

_FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class Ending(StrEnum):
    """Why an attempt ended or is ending; known at the latest when its last worker has ended.

    `stopped`: by its owner (pause or cancel). `preempted`: by a plan. `overran`: it reached its maximum run time.
    `idle`: it left its GPUs idle for too long. After `resized` and `moved` the next attempt starts at once, with more
    or fewer workers or on other GPUs. `lost`: a worker, its supervisor or its node is gone, for no known fault.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OVERRAN = "overran"
    IDLE = "idle"
    STOPPED = "stopped"
    PREEMPTED = "preempted"
    RESIZED = "resized"
    MOVED = "moved"
    LOST = "lost"


class Fault(StrEnum):
    """The cause of an attempt's early end, where an engine knows it.

    `job`: a retry would end the same way. `place`: its node could not run it, others may. `engine`: starting workers
    failed and may work later. `others`: the scheduler that places it has stopped it for others.
    """

    JOB = "job"
    PLACE = "place"
    ENGINE = "engine"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Avoided:
    """A node that a job avoids `until` an instant, since the node could not run it."""

    node: NodeName
    until: float


@dataclass(frozen=True, slots=True)
class WorkerPlacement:
    """The placement of one worker: GPUs of a node, and the `share` of each (below 1000 only on a single GPU)."""

    node: NodeName
    gpus: tuple[int, ...] = ()
    share: Milli = ONE


def without_gpus(placement: Iterable[WorkerPlacement]) -> tuple[WorkerPlacement, ...]:
    """The same workers on their nodes, without their GPUs."""
    return tuple([WorkerPlacement(worker.node) for worker in placement])


def held_by(placement: Iterable[WorkerPlacement]) -> Milli:
    """The GPUs that the workers of a placement hold."""
    return sum([worker.share * len(worker.gpus) for worker in placement])


@dataclass(frozen=True, slots=True)
class Workload:
    """What the policy sees of a job or a session.

    A `running` workload holds the GPUs of its placement; one that is `stopping` (also running) will release them.
    `nomination` is the placement that a plan reserves for a waiting or stopping workload, once others (or it itself)
    have left. `submitted` is its age, which a preemption does not change; `preempted` is when it was stopped last and
    `preemptions` how often. `served` is what its earlier attempts held, in GPU-seconds. `claim` has the GPUs that an
    idle session lends, which its placement then lacks; `recalled`: it is to get them back now.
    """

    id: WorkloadId
    request: Request
    submitted: float
    running: bool = False
    stopping: bool = False
    started: float | None = None
    checkpointed: float | None = None
    placement: tuple[WorkerPlacement, ...] = ()
    preempted: float | None = None
    nomination: tuple[WorkerPlacement, ...] = ()
    preemptions: int = 0
    served: float = 0.0
    claim: tuple[WorkerPlacement, ...] = ()
    recalled: bool = False

    def served_until(self, now: float) -> float:
        """The GPU-seconds that it has held by `now`, over all its attempts."""
        if not self.running or self.started is None:
            return self.served
        return self.served + max(0.0, now - self.started) * held_by(self.placement) / ONE


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job from start to end. `exit_codes` has one entry for each rank (`None`: not known).

    `stopping` is the time of the request to stop, if any; `ending` the reason. `error_excerpt` is the end of the log of
    the first failed worker; like the log, only its owner may read it. `gpu_type` is set if all its GPUs are of one
    type; `throughput` is the reported steps per second.
    """

    number: int
    placement: tuple[WorkerPlacement, ...]
    created: float
    started: float | None = None
    ended: float | None = None
    exit_codes: tuple[int | None, ...] = ()
    reason: str = ""
    stopping: float | None = None
    ending: Ending | None = None
    error_excerpt: str = ""
    gpu_type: GpuType | None = None
    throughput: float | None = None
    fault: Fault | None = None

    @property
    def served(self) -> float:
        """The GPU-seconds that it held, once it has ended."""
        if self.started is None or self.ended is None:
            return 0.0
        return max(0.0, self.ended - self.started) * held_by(self.placement) / ONE


@dataclass(frozen=True, slots=True)
class Job:
    """A train workload and its state. `wanted` is the state that its owner last requested, which outlives a stop.

    `nomination` is the placement of its next attempt, once others, or it itself, have left; `checkpointed` is when it
    last saved its state; `schedule` is the schedule that it is a run of.
    """

    id: JobId
    name: str
    request: Request
    program: Program
    submitted: float
    state: JobState = JobState.QUEUED
    reason: str = ""
    wanted: JobState | None = None
    queued: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    checkpointed: float | None = None
    ended: float | None = None
    idempotency_key: str | None = None
    nomination: tuple[WorkerPlacement, ...] = ()
    avoids: tuple[Avoided, ...] = ()
    schedule: ScheduleId | None = None

    @property
    def user(self) -> UserName:
        return self.request.user or UserName("")

    @property
    def attempt(self) -> Attempt | None:
        """The latest attempt, running or not."""
        return self.attempts[-1] if self.attempts else None

    @property
    def placement(self) -> tuple[WorkerPlacement, ...]:
        return self.attempts[-1].placement if self.attempts and self.state.holds_gpus else ()

    def with_attempt(self, attempt: Attempt) -> Job:
        """The same job with `attempt` added, or replacing the one with its number."""
        kept = tuple(a for a in self.attempts if a.number != attempt.number)
        return replace(self, attempts=(*kept, attempt))

    def workload(self) -> Workload:
        holds = self.state.holds_gpus
        started = self.attempts[-1].started if holds else None
        saved = self.checkpointed if holds else None
        preempted = [a.stopping for a in self.attempts if a.ending is Ending.PREEMPTED]
        return Workload(
            id=self.id,
            request=replace(self.request, avoids=tuple(each.node for each in self.avoids))
            if self.avoids
            else self.request,
            submitted=self.queued or self.submitted,
            preempted=preempted[-1] if preempted else None,
            preemptions=len(preempted),
            served=sum([attempt.served for attempt in self.attempts]),
            running=holds,
            stopping=self.state is JobState.STOPPING,
            started=started,
            checkpointed=saved if saved is None or started is None else max(saved, started),
            placement=self.placement,
            nomination=self.nomination,
        )


class JobKey(StrEnum):
    """What a list of jobs is ordered by.

    `started` is the first start; `waiting` the time from the submission until then (or until now, or the end of a job
    that never started); `gpus` are those requested for all workers.
    """

    SUBMITTED = "submitted"
    STARTED = "started"
    WAITING = "waiting"
    GPUS = "gpus"
    PRIORITY = "priority"
    PROJECT = "project"
    USER = "user"

    @property
    def is_text(self) -> bool:
        return self in (JobKey.PROJECT, JobKey.USER)


class SessionState(StrEnum):
    """A session waits for a plan, holds its lease, or has ended."""

    REQUESTED = "requested"
    LEASED = "leased"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Session:
    """A build workload: one user's notebook server (`server`, "" for the default one) and the GPUs leased to it.

    While it is idle, its GPUs may be lent, or taken back: `placement` then has its nodes without GPUs since `placed`.
    `claim` is the placement that it gets back; `recalled` is since when it is due, because the server is used again.
    `groups` are those of its user in JupyterHub when it was requested.
    """

    id: SessionId
    server: str
    request: Request
    requested: float
    state: SessionState = SessionState.REQUESTED
    reason: str = ""
    placement: tuple[WorkerPlacement, ...] = ()
    started: float | None = None
    ended: float | None = None
    placed: float | None = None
    claim: tuple[WorkerPlacement, ...] = ()
    recalled: float | None = None
    groups: tuple[GroupName, ...] = ()

    @property
    def placed_since(self) -> float | None:
        """Since when it has been placed as it is."""
        return self.started if self.placed is None else self.placed

    @property
    def promised(self) -> tuple[WorkerPlacement, ...]:
        """What it holds, or gets back when it is used."""
        return self.claim or self.placement

    @property
    def taken(self) -> bool:
        """Whether its GPUs were taken back while its server runs."""
        return bool(self.placed is not None and not held_by(self.promised))

    @property
    def counted(self) -> Milli:
        """The GPUs that count against its user's quota."""
        waits = self.state is SessionState.REQUESTED
        return self.request.shape.gpus if waits else held_by(self.promised)

    @property
    def user(self) -> UserName:
        return self.request.user or UserName("")

    @property
    def server_key(self) -> tuple[UserName, str]:
        return self.user, self.server

    def workload(self) -> Workload:
        return Workload(
            id=self.id,
            request=self.request,
            submitted=self.requested,
            running=self.state is SessionState.LEASED,
            started=self.started,
            placement=self.placement,
            claim=self.claim,
            recalled=self.recalled is not None,
        )
