"""The nouns of the pool, as small immutable types.

Units: GPUs and CPUs are integers in thousandths (`Milli`: 1000 is one), memory is in MiB, times are seconds
since the epoch (`float`), durations are seconds. Amounts are never floats, so that shares add up exactly.
Nothing here does I/O, reads a clock or knows another room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

Milli = int
MiB = int
Speeds = tuple[tuple[str, Milli], ...]
Parameter = bool | int | float | str

ONE: Milli = 1000
"""One whole GPU, or one CPU."""


class Environment(StrEnum):
    """Which kind of workload a node pool serves."""

    BUILD = "build"
    TRAIN = "train"


class PlacementStyle(StrEnum):
    """Whether a node pool fills nodes one by one (keeping whole ones free) or spreads over them."""

    PACK = "pack"
    SPREAD = "spread"


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
    """Why an attempt ended, or is ending: it is known at the latest when its last worker is gone.

    `stopped` is its owner's wish (pause or cancel), `preempted` the plan's, `overran` its longest run time, `idle` that it
    left its GPUs idle for too long. After `resized` and `moved` the next attempt begins at once, with more or fewer workers or
    in other places. `lost` is nobody's fault that we know: a worker, its supervisor or its node is gone.
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


class JobKind(StrEnum):
    """What a job runs: a notebook cell, a script, a whole notebook or any command."""

    CELL = "cell"
    SCRIPT = "script"
    NOTEBOOK = "notebook"
    COMMAND = "command"


class Framework(StrEnum):
    """How the workers of a job find each other: as scripts written for this framework expect it, or not at all."""

    NONE = "none"
    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    HOROVOD = "horovod"
    JAX = "jax"
    MPI = "mpi"


@dataclass(frozen=True, slots=True)
class Node:
    """A machine, or the part of a machine that belongs to one node pool, with its GPUs `0 … gpus-1`.

    `devices[i]` is what the driver calls GPU `i` (an NVML UUID), or its number on the machine where GPUs are declared.
    `gpu_links` groups GPUs joined by the fastest link. `labels` name topology domains (`rack`, `block`, …).
    """

    name: str
    gpus: int
    gpu_type: str | None = None
    gpu_memory: MiB | None = None
    cpus: Milli | None = None
    memory: MiB | None = None
    node_pool: str = "train"
    labels: Mapping[str, str] = field(default_factory=dict)
    gpu_links: tuple[tuple[int, ...], ...] = ()
    schedulable: bool = True
    devices: tuple[str, ...] = ()
    declared: bool = False


@dataclass(frozen=True, slots=True)
class NodePool:
    """A named set of nodes that belongs to one environment.

    `gpus` matters on one machine only: how many of its GPUs this node pool takes (`None`: what is left).
    """

    name: str
    environment: Environment
    placement: PlacementStyle = PlacementStyle.PACK
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a job gets where it says nothing; `None`: nothing is ruled. `gpus`, `cpus` and `memory_gib` are for each worker."""

    gpus: Milli | None = None
    cpus: float | None = None
    memory_gib: float | None = None
    priority: int | None = None
    preemptible: bool | None = None
    min_runtime: float | None = None
    max_runtime: float | None = None
    idle_timeout: float | None = None
    gpu_types: tuple[str, ...] | None = None
    grace: float | None = None
    retries: int | None = None
    node_pools: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Maxima:
    """The most that a job may ask for; `None`: no rule. `total_gpus` are for all workers, the like without it for each."""

    gpus: Milli | None = None
    total_gpus: Milli | None = None
    cpus: float | None = None
    memory_gib: float | None = None
    workers: int | None = None
    priority: int | None = None
    min_runtime: float | None = None
    max_runtime: float | None = None
    idle_timeout: float | None = None
    grace: float | None = None
    retries: int | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """The values that a job may choose from; `None`: any."""

    gpu_types: tuple[str, ...] | None = None
    node_pools: tuple[str, ...] | None = None
    preemptible: tuple[bool, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProjectPolicy:
    """What an administrator rules for the jobs of a project and of all below it."""

    defaults: Defaults = Defaults()
    maxima: Maxima = Maxima()
    allowed: Allowed = Allowed()


@dataclass(frozen=True, slots=True)
class Quota:
    """What a project has of the GPUs of a node pool, of a type, or of a type in a node pool.

    Where `guaranteed` is not `None` for any project, that part of the pool is shared out by itself: only what is guaranteed
    there counts in it. `limit=None` is no limit of its own.
    """

    guaranteed: Milli | None = None
    limit: Milli | None = None
    node_pool: str | None = None
    gpu_type: str | None = None

    def covers(self, node: Node) -> bool:
        """Whether the GPUs of a node are among them."""
        return self.node_pool in (None, node.node_pool) and self.gpu_type in (None, node.gpu_type)


@dataclass(frozen=True, slots=True)
class Project:
    """A queue. Projects form a tree; a leaf takes jobs.

    `guaranteed=None` is without bound, `limit=None` is no limit, `weight=None` is the guarantee (or one GPU's
    worth where that is 0). `members` and `groups` name who may submit; `"*"` in `members` is everybody.
    """

    name: str
    parent: str | None = None
    guaranteed: Milli | None = 0
    limit: Milli | None = None
    weight: Milli | None = None
    priority: int = 0
    created: float = 0.0
    usage: float = 0.0
    members: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    policy: ProjectPolicy = ProjectPolicy()
    quotas: tuple[Quota, ...] = ()

    @property
    def all_guaranteed(self) -> Milli | None:
        """GPUs guaranteed in all parts of the pool together; `None`: without bound."""
        if self.guaranteed is None:
            return None
        return self.guaranteed + sum(quota.guaranteed or 0 for quota in self.quotas)


@dataclass(frozen=True, slots=True)
class User:
    """A person with a fixed quota of build GPUs."""

    name: str
    build_quota: Milli = ONE


@dataclass(frozen=True, slots=True)
class Shape:
    """What one worker needs: `gpus` (whole ones, or a share of one below 1000), or `gpu_memory` on one GPU instead."""

    gpus: Milli = ONE
    gpu_memory: MiB | None = None
    cpus: Milli | None = None
    memory: MiB | None = None


def size_of(shape: Shape) -> tuple[int, int, int, int]:
    """What a shape is compared by: its GPUs first."""
    return shape.gpus, shape.gpu_memory or 0, shape.cpus or 0, shape.memory or 0


def relative_speeds(speeds: Mapping[str, float], best: float = 0.0) -> Speeds:
    """Speeds by type of GPU, of any unit, in thousandths of the fastest (or of `best`), by name."""
    best = best or max(speeds.values(), default=0)
    return tuple((name, max(1, round(ONE * speed / best))) for name, speed in sorted(speeds.items()))


@dataclass(frozen=True, slots=True)
class After:
    """Another job that must have succeeded, or only ended (`whatever`), before this one may start."""

    job: str
    whatever: bool = False


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """A job's place among the many that were sent as one: its own `index`, and how many may hold GPUs `at_once`."""

    id: str
    index: int
    size: int
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """Some workers of a gang, of one shape of their own: a launcher, say, or parameter servers.

    When all that are a `leader` have ended well the job has succeeded, and the others are stopped.
    """

    name: str
    workers: int
    shape: Shape
    leader: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What a workload asks of the scheduler. `workers` is the most it wants, `min_workers` the gang.

    With `groups` the gang is made of workers of several shapes, whose ranks run through the groups in order; `workers` and
    `min_workers` are then all of them, and `shape` is the largest. `speeds` is how fast jobs like it have run on which type
    of GPU, in thousandths of the fastest, and `spread_speeds` the same over several nodes: measured, never asked for.
    """

    project: str
    user: str | None = None
    environment: Environment = Environment.TRAIN
    shape: Shape = Shape()
    workers: int = 1
    min_workers: int = 1
    priority: int = 50
    preemptible: bool = True
    gpu_types: tuple[str, ...] | None = None
    node_pools: tuple[str, ...] | None = None
    require: str | None = None
    prefer: str | None = None
    min_runtime: float = 0.0
    expected_runtime: float | None = None
    after: tuple[After, ...] = ()
    array: ArrayPlace | None = None
    groups: tuple[WorkerGroup, ...] = ()
    speeds: Speeds = ()
    spread_speeds: Speeds = ()

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of each worker, by rank."""
        if not self.groups:
            return (self.shape,) * self.workers
        return tuple(group.shape for group in self.groups for _ in range(group.workers))

    @property
    def leaders(self) -> tuple[int, ...]:
        """The ranks with whose good end the job ends; none where it ends with all of them."""
        leads = [group.leader for group in self.groups for _ in range(group.workers)]
        return tuple(rank for rank, leader in enumerate(leads) if leader)

    @property
    def gpus(self) -> Milli:
        """What all workers together ask for (memory on a GPU is not counted)."""
        return sum(shape.gpus for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class WorkerPlacement:
    """Where one worker stands: the GPUs of a node, `share` of each (below 1000 only on a single GPU)."""

    node: str
    gpus: tuple[int, ...] = ()
    share: Milli = ONE


@dataclass(frozen=True, slots=True)
class Workload:
    """What the policy sees of a job or a session.

    `running` holds the GPUs of its placement; `stopping` (running, too) is on its way out and gives them back by itself.
    `nomination` is the placement that a plan promised to one that waits or is stopping, once others (or it itself) have left.
    `submitted` is its age, which a preemption does not change; `preempted` is when it was stopped last.
    """

    id: str
    request: Request
    submitted: float
    running: bool = False
    stopping: bool = False
    started: float | None = None
    checkpointed: float | None = None
    placement: tuple[WorkerPlacement, ...] = ()
    preempted: float | None = None
    nomination: tuple[WorkerPlacement, ...] = ()


@dataclass(frozen=True, slots=True)
class LargeFile:
    """A file of a job's working directory that is kept by itself: the bytes of `blobs`, one after the other."""

    path: str
    blobs: tuple[str, ...]
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What a job runs: `command` (argv) in a working directory filled from the content-addressed `bundle` and `files`.

    `outputs` are the names a cell brings back. `grace` is the time between SIGTERM and SIGKILL,
    `max_runtime` the longest that one attempt may take, `idle_timeout` how long it may leave its GPUs idle,
    `retries` how often a failed attempt is tried again.
    `parameters` are values by name that tell it from the other jobs of a sweep.
    """

    kind: JobKind
    command: tuple[str, ...]
    bundle: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    grace: float = 30.0
    max_runtime: float | None = None
    idle_timeout: float | None = None
    retries: int = 0
    files: tuple[LargeFile, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    framework: Framework = Framework.NONE

    @property
    def blobs(self) -> frozenset[str]:
        """Everything of the store of blobs that it needs to start."""
        parts = {blob for file in self.files for blob in file.blobs}
        return frozenset(parts if self.bundle is None else {self.bundle, *parts})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job from start to end. `exit_codes` has one entry a rank (`None`: not known).

    `stopping` is when it was told to stop, if it was; `ending` why. `said` is what the log of the worker that failed first
    ends with: its owner's alone to read, as the log is. `gpu_type` is that of all its GPUs, if they are of one; `throughput`
    the steps a second that it reported.
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
    said: str = ""
    gpu_type: str | None = None
    throughput: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A train workload and where it stands. `wanted` is the state its owner asked for last, which outlives a stop.

    `nomination` is the placement of its next attempt, once others, or it itself, have left; `checkpointed` is when it last
    saved its state.
    """

    id: str
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

    @property
    def user(self) -> str:
        return self.request.user or ""

    @property
    def attempt(self) -> Attempt | None:
        """The latest attempt, running or not."""
        return self.attempts[-1] if self.attempts else None

    @property
    def placement(self) -> tuple[WorkerPlacement, ...]:
        return self.attempts[-1].placement if self.attempts and self.state.holds_gpus else ()

    def with_attempt(self, attempt: Attempt) -> Job:
        """The same job with `attempt` added, or put in the place of the one with its number."""
        kept = tuple(a for a in self.attempts if a.number != attempt.number)
        return replace(self, attempts=(*kept, attempt))

    def workload(self) -> Workload:
        holds = self.state.holds_gpus
        started = self.attempts[-1].started if holds else None
        saved = self.checkpointed if holds else None
        preempted = (a.stopping for a in reversed(self.attempts) if a.ending is Ending.PREEMPTED)
        return Workload(
            id=self.id,
            request=self.request,
            submitted=self.queued or self.submitted,
            preempted=next(preempted, None),
            running=holds,
            stopping=self.state is JobState.STOPPING,
            started=started,
            checkpointed=saved if saved is None or started is None else max(saved, started),
            placement=self.placement,
            nomination=self.nomination,
        )


class SessionState(StrEnum):
    """A session waits for its plan, holds its lease, or is over."""

    REQUESTED = "requested"
    LEASED = "leased"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Session:
    """A build workload: one user's notebook server (`server`, "" for the default one) and the GPUs leased to it."""

    id: str
    server: str
    request: Request
    requested: float
    state: SessionState = SessionState.REQUESTED
    reason: str = ""
    placement: tuple[WorkerPlacement, ...] = ()
    started: float | None = None
    ended: float | None = None

    @property
    def user(self) -> str:
        return self.request.user or ""

    def workload(self) -> Workload:
        return Workload(
            id=self.id,
            request=self.request,
            submitted=self.requested,
            running=self.state is SessionState.LEASED,
            started=self.started,
            placement=self.placement,
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """The policy's options. Unknown names are refused where settings are read.

    `resize_interval` is how long an attempt runs at least before it is ended to begin again with more workers; 0: a restart
    costs nothing.
    """

    reclaim: str = "fair_share"
    reservations: int = 1
    preemption_delay: float = 0.0
    time_aware: float = 0.0
    lending: bool = False
    resize_interval: float = 300.0


@dataclass(frozen=True, slots=True)
class Pool:
    """What an administrator declares: everything about the pool but what runs on it.

    `build_overcommit` says that `users` may be promised more GPUs to build with than there are.
    `policy` rules the jobs of all projects. What has ended is deleted after `keep_days`; `None`: never.
    """

    node_pools: tuple[NodePool, ...] = (
        NodePool("build", Environment.BUILD),
        NodePool("train", Environment.TRAIN),
    )
    projects: tuple[Project, ...] = (Project("default", members=frozenset({"*"})),)
    users: tuple[User, ...] = ()
    default_build_quota: Milli = ONE
    build_overcommit: bool = False
    policy: ProjectPolicy = ProjectPolicy()
    topology: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    keep_days: float | None = 90.0
