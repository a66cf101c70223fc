"""What an administrator declares: nodes, node pools, projects and their rules, users, settings."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from scheduler.model.amounts import ONE, MiB, Milli
from scheduler.model.names import NodeName, ProjectName, UserName


class Environment(StrEnum):
    """Which kind of workload a node pool serves."""

    BUILD = "build"
    TRAIN = "train"


class PlacementStyle(StrEnum):
    """Whether a node pool fills nodes one by one (keeping whole ones free) or spreads over them."""

    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """What others use on a node: everything that is neither a session nor a job of this pool.

    `gpus` is the share of each GPU whose number is known. `unnumbered` is what others use of the other GPUs, where the
    engine assigns GPUs itself and reports only how many are in use: whole GPUs, and part of one more.
    """

    gpus: tuple[tuple[int, Milli], ...] = ()
    unnumbered: Milli = 0
    cpus: Milli = 0
    memory: MiB = 0

    @property
    def amount(self) -> Milli:
        """The total of the GPUs that others use."""
        return self.unnumbered + sum([share for _, share in self.gpus])

    def by_gpu(self, gpus: int, held: Container[int]) -> dict[int, Milli]:
        """The share of each GPU that others use, of `gpus` of which workloads of the pool hold some.

        Of GPUs whose numbers are not known, those with the highest numbers that no workload holds.
        """
        found = {gpu: share for gpu, share in self.gpus if gpu < gpus}
        left = self.unnumbered
        if left > 0:
            others = sorted(set(range(gpus)) - found.keys(), key=lambda gpu: (gpu in held, -gpu))
            for gpu in others[: -(-left // ONE)]:
                found[gpu] = min(ONE, left)
                left -= ONE
        return found


@dataclass(frozen=True, slots=True)
class Node:
    """A machine, or the part of a machine that belongs to one node pool, with its GPUs `0 … gpus-1`.

    `devices[i]` is what the driver calls GPU `i` (an NVML UUID), or its number on the machine where GPUs are declared.
    `gpu_links` groups GPUs joined by the fastest link. `labels` name topology domains (`rack`, `block`, …). A node that
    is not `schedulable` (cordoned) keeps its workloads and gets no others. What `foreign` names is not there for the
    pool. `slowness` has the GPUs that run slower than others of their type, with the time that they need in thousandths
    of that of others: measured, never declared.
    """

    name: NodeName
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
    foreign: ForeignUse = ForeignUse()
    slowness: tuple[tuple[int, Milli], ...] = ()


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
    """What a job gets where it says nothing; `None`: nothing is ruled. `gpus`, `cpus` and `memory_gib` are for each
    worker."""

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
    """The most that a job may ask for; `None`: no rule. `total_gpus` are for all workers, the like without it for
    each."""

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
class ProjectRules:
    """What an administrator rules for the jobs of a project and of all below it."""

    defaults: Defaults = Defaults()
    maxima: Maxima = Maxima()
    allowed: Allowed = Allowed()


@dataclass(frozen=True, slots=True)
class Quota:
    """What a project has of the GPUs of a node pool, of a type, or of a type in a node pool.

    Where `guaranteed` is not `None` for any project, that part of the pool is shared out by itself: only what is
    guaranteed there counts in it. `limit=None` is no limit of its own.
    """

    guaranteed: Milli | None = None
    limit: Milli | None = None
    node_pool: str | None = None
    gpu_type: str | None = None

    def covers(self, node: Node) -> bool:
        """Whether the GPUs of a node are among them."""
        return self.node_pool in (None, node.node_pool) and self.gpu_type in (None, node.gpu_type)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a project has of the CPUs (thousandths) or of the memory (MiB). `guaranteed=None` is what comes with its
    guaranteed GPUs; `limit=None` is no limit."""

    guaranteed: int | None = None
    limit: int | None = None


class QueueOrder(StrEnum):
    """Which of a project's jobs of one priority is next: the older one, or that of the user who uses least of the
    project now, then the one that was served least."""

    ARRIVAL = "arrival"
    SERVED = "served"


@dataclass(frozen=True, slots=True)
class Window:
    """A time at which a project is guaranteed another number of GPUs (`None`: without bound).

    It begins `start` minutes after midnight of each day of `days` (0 is Monday) from `first` to `last`, by the clocks
    of `timezone` (a name of the IANA database), and ends before `end` of the same day, or of the next day where `end`
    is not after `start`.
    """

    guaranteed: Milli | None
    timezone: str
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    start: int = 0
    end: int = 1440
    first: date | None = None
    last: date | None = None


@dataclass(frozen=True, slots=True)
class GuaranteeChange:
    """From `at`, a project is guaranteed another number of GPUs. People are told the time in `timezone`."""

    at: float
    guaranteed: Milli | None
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Project:
    """A queue. Projects form a tree; a leaf takes jobs.

    `guaranteed=None` is without bound, `limit=None` is no limit, `weight=None` is the guarantee (or one GPU's
    worth where that is 0). `members` and `groups` name who may submit; `"*"` in `members` is everybody. `order=None` is
    that of the project above, or that of the pool's settings. With each guaranteed GPU come the CPUs and the memory
    that a node has for each of its GPUs, unless `cpus` and `memory` say how much is guaranteed.

    `guaranteed` is outside its `windows`. In a snapshot it is what is in force, and `changes` are the next ones of it
    (`windows.pool_at`); nobody declares these.
    """

    name: ProjectName
    parent: ProjectName | None = None
    guaranteed: Milli | None = 0
    limit: Milli | None = None
    weight: Milli | None = None
    priority: int = 0
    created: float = 0.0
    members: frozenset[UserName] = frozenset()
    groups: frozenset[str] = frozenset()
    policy: ProjectRules = ProjectRules()
    quotas: tuple[Quota, ...] = ()
    order: QueueOrder | None = None
    cpus: Bounds = Bounds()
    memory: Bounds = Bounds()
    windows: tuple[Window, ...] = ()
    changes: tuple[GuaranteeChange, ...] = ()

    @property
    def all_guaranteed(self) -> Milli | None:
        """GPUs guaranteed in all parts of the pool together, in the window with the most; `None`: without bound."""
        most: Milli = 0
        for guaranteed in (self.guaranteed, *(window.guaranteed for window in self.windows)):
            if guaranteed is None:
                return None
            most = max(most, guaranteed)
        return most + sum(quota.guaranteed or 0 for quota in self.quotas)


@dataclass(frozen=True, slots=True)
class User:
    """A person with a fixed quota of build GPUs."""

    name: UserName
    build_quota: Milli = ONE


class ReclaimUpTo(StrEnum):
    """How far a project may reclaim GPUs from others."""

    GUARANTEE = "guarantee"
    FAIR_SHARE = "fair_share"


@dataclass(frozen=True, slots=True)
class Settings:
    """The policy's options. Unknown names are refused where settings are read.

    `resize_interval` is how long an attempt runs at least before it is ended to begin again with more workers; 0: a
    restart costs nothing. `usage_half_life` is that of recent use, in seconds; recent use counts where `time_aware` is
    above 0.

    `order` is that of the projects that set none. A job that was served longer than a threshold of `service_levels`
    (GPU-hours over all its attempts) is on a higher level. A job that has waited `patience` times as long as it ran is
    on the lowest one again.
    """

    reclaim: ReclaimUpTo = ReclaimUpTo.FAIR_SHARE
    reservations: int = 1
    preemption_delay: float = 0.0
    time_aware: float = 0.0
    lending: bool = False
    resize_interval: float = 300.0
    usage_half_life: float = 604_800.0
    order: QueueOrder = QueueOrder.ARRIVAL
    service_levels: tuple[float, ...] = (8.0, 64.0)
    patience: float = 8.0


@dataclass(frozen=True, slots=True)
class Pool:
    """What an administrator declares: everything about the pool but what runs on it.

    `build_overcommit` says that `users` may be promised more GPUs to build with than there are. `policy` rules the jobs
    of all projects. What has ended is deleted after `keep_days`; `None`: never. Each user may have `max_jobs_per_user`
    unfinished jobs, and `max_upload_gib_per_user` of files put for jobs; `None`: without bound. Nodes in `drained`,
    each with the reason, keep their workloads and get no others.
    """

    node_pools: tuple[NodePool, ...] = (
        NodePool("build", Environment.BUILD),
        NodePool("train", Environment.TRAIN),
    )
    projects: tuple[Project, ...] = (Project(ProjectName("default"), members=frozenset({UserName("*")})),)
    users: tuple[User, ...] = ()
    default_build_quota: Milli = ONE
    build_overcommit: bool = False
    policy: ProjectRules = ProjectRules()
    topology: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    keep_days: float | None = 90.0
    max_jobs_per_user: int | None = 10_000
    max_upload_gib_per_user: int | None = 200
    drained: tuple[tuple[NodeName, str], ...] = ()
