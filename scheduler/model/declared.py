"""What an administrator declares: nodes, node pools, projects and their rules, users, settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Generic, Literal, TypeVar

from scheduler.model.amounts import ONE, MiB, Milli
from scheduler.model.foreign import ForeignUse
from scheduler.model.isolation import Isolation
from scheduler.model.names import GpuType, GroupName, NodeName, NodePoolName, ProjectName, UserName
from scheduler.model.settings import QueueOrder, Settings

BUILD_POOL = NodePoolName("build")
TRAIN_POOL = NodePoolName("train")
"""The node pools where none are declared."""


class Environment(StrEnum):
    """Which kind of workload a node pool serves."""

    BUILD = "build"
    TRAIN = "train"


class PlacementStyle(StrEnum):
    """Whether a node pool fills nodes one by one (keeping whole ones free) or spreads over them."""

    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class Node:
    """A machine, or the part of a machine that belongs to one node pool, with its GPUs `0 … gpus-1`.

    `devices[i]` is what the driver calls GPU `i` (an NVML UUID), or its number on the machine where GPUs are declared.
    `gpu_links` groups GPUs joined by the fastest link. `labels` name topology domains (`rack`, `block`, …). A node that
    is not `schedulable` (cordoned) keeps its workloads and gets no others. `foreign` is use outside the pool, which the
    pool cannot allocate. `slowness` has the GPUs that run slower than others of their type, with their run time in
    thousandths of that of others: measured, never declared. `failing` has the GPUs that fail and why; `foreign` counts
    them as used, so that they get no work. `gpu_parts` is the number of equal parts that each GPU is divided into: with
    1 only whole GPUs are given, with more each worker gets one part, with 0 any share. `isolation` separates the parts;
    where it is `mig` and `gpu_parts` is 1, each GPU is a MIG instance.
    """

    name: NodeName
    gpus: int
    gpu_type: GpuType | None = None
    gpu_memory: MiB | None = None
    cpus: Milli | None = None
    memory: MiB | None = None
    node_pool: NodePoolName = TRAIN_POOL
    labels: Mapping[str, str] = field(default_factory=dict)
    gpu_links: tuple[tuple[int, ...], ...] = ()
    schedulable: bool = True
    devices: tuple[str, ...] = ()
    declared: bool = False
    foreign: ForeignUse = field(default_factory=ForeignUse)
    slowness: tuple[tuple[int, Milli], ...] = ()
    failing: tuple[tuple[int, str], ...] = ()
    gpu_parts: int = 0
    isolation: Isolation = Isolation.UNKNOWN

    @property
    def most_gpus(self) -> int:
        """The most GPUs that one worker can have here: a process can use only one MIG instance."""
        return min(self.gpus, 1) if self.isolation is Isolation.MIG else self.gpus

    def part_memory(self, share: Milli) -> MiB:
        """The memory of a share of one GPU; 0 where that of the GPU is unknown."""
        return (self.gpu_memory or 0) * share // ONE

    def share_for(self, share: Milli) -> Milli | None:
        """What a worker that asks for a share of one GPU gets of it here; None where it can't be had."""
        if not self.gpu_parts:
            return share if share <= ONE else None
        part = ONE // self.gpu_parts
        return part if share <= part < ONE else None


@dataclass(frozen=True, slots=True)
class NodePool:
    """A named set of nodes that belongs to one environment.

    `gpus` matters on one machine only: how many of its GPUs this node pool takes (`None`: what is left).
    """

    name: NodePoolName
    environment: Environment
    placement: PlacementStyle = PlacementStyle.PACK
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """The default values of a job; `None`: no rule. `gpus`, `cpus` and `memory_gib` are per worker."""

    gpus: Milli | None = None
    cpus: float | None = None
    memory_gib: float | None = None
    priority: int | None = None
    preemptible: bool | None = None
    min_runtime: float | None = None
    max_runtime: float | None = None
    idle_timeout: float | None = None
    gpu_types: tuple[GpuType, ...] | None = None
    grace: float | None = None
    retries: int | None = None
    node_pools: tuple[NodePoolName, ...] | None = None


@dataclass(frozen=True, slots=True)
class Maxima:
    """The most that a job may request; `None`: no rule. `total_gpus` is for all workers, `gpus` for each."""

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

    gpu_types: tuple[GpuType, ...] | None = None
    node_pools: tuple[NodePoolName, ...] | None = None
    preemptible: tuple[bool, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProjectRules:
    """The rules for the jobs of a project and of all projects below it."""

    defaults: Defaults = Defaults()
    maxima: Maxima = Maxima()
    allowed: Allowed = Allowed()


@dataclass(frozen=True, slots=True)
class Quota:
    """A project's quota of the GPUs of a node pool, of a type, or of a type in a node pool.

    Where `guaranteed` is not `None` for any project, that part of the pool is divided separately: only guarantees for
    it count there. `limit=None` is no limit.
    """

    guaranteed: Milli | None = None
    limit: Milli | None = None
    node_pool: NodePoolName | None = None
    gpu_type: GpuType | None = None

    def covers(self, node: Node) -> bool:
        """Whether the quota covers the GPUs of a node."""
        return self.node_pool in (None, node.node_pool) and self.gpu_type in (None, node.gpu_type)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A project's quota of CPUs (thousandths) or memory (MiB). `guaranteed=None` is the amount that comes with its
    guaranteed GPUs; `limit=None` is no limit."""

    guaranteed: int | None = None
    limit: int | None = None


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
    """From `at`, a project is guaranteed another number of GPUs. The time is shown in `timezone`."""

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

    `guaranteed` holds outside its `windows`. In a snapshot it is the guarantee in force, and `changes` are its next
    changes (`windows.pool_at`), which are never declared.
    """

    name: ProjectName
    parent: ProjectName | None = None
    guaranteed: Milli | None = 0
    limit: Milli | None = None
    weight: Milli | None = None
    priority: int = 0
    created: float = 0.0
    members: frozenset[UserName] = frozenset()
    groups: frozenset[GroupName] = frozenset()
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


@dataclass(frozen=True, slots=True)
class UserGroup:
    """A group of JupyterHub, each user of which has a fixed quota of build GPUs."""

    name: GroupName
    build_quota: Milli = ONE


N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class BuildQuota(Generic[N]):
    """The build GPUs that a user may hold, and what says so: `user`, `group` (of the name `group`) or `default`."""

    gpus: N
    source: Literal["user", "group", "default"] = "default"
    group: str | None = None

    @classmethod
    def of(
        cls, user: str, groups: Iterable[str], users: Mapping[str, N], of_groups: Mapping[str, N], default: N
    ) -> BuildQuota[N]:
        """A user's own quota, else the largest of their groups' quotas, else the default."""
        if user in users:
            return cls(users[user], "user")
        largest = max(((of_groups[name], name) for name in sorted(groups) if name in of_groups), default=None)
        return cls(default) if largest is None else cls(largest[0], "group", largest[1])


@dataclass(frozen=True, slots=True)
class Pool:
    """What an administrator declares: everything about the pool except what runs on it.

    A user who is not among `users` has the largest build quota of their `groups`, or the default one.
    With `build_overcommit`, `users` may be promised more build GPUs than there are. `policy` has rules for all jobs.
    Ended jobs are deleted after `keep_days`. Each user may have `max_jobs_per_user` unfinished jobs, and upload
    `max_upload_gib_per_user`; `None`: any number. `drained` nodes get no new work; `moved` ones have another node pool.
    """

    node_pools: tuple[NodePool, ...] = (
        NodePool(BUILD_POOL, Environment.BUILD),
        NodePool(TRAIN_POOL, Environment.TRAIN),
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
    moved: tuple[tuple[NodeName, NodePoolName], ...] = ()
    groups: tuple[UserGroup, ...] = ()

    def build_quota(self, user: UserName, groups: Iterable[GroupName] = ()) -> BuildQuota[Milli]:
        """The build GPUs that a user of these groups of JupyterHub may hold."""
        users: dict[str, Milli] = {each.name: each.build_quota for each in self.users}
        of_groups: dict[str, Milli] = {each.name: each.build_quota for each in self.groups}
        return BuildQuota.of(user, groups, users, of_groups, self.default_build_quota)
