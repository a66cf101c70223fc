"""What the API says of the pool, its projects and sessions, and of the caller. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from scheduler.model import Environment, QueueOrder, SessionState
from scheduler.schema.jobs import WorkerView
from scheduler.schema.poolfile import PolicyEntry, QuotaEntry, WindowEntry
from scheduler.schema.wire import Wire


class Occupant(Wire):
    """Who holds (a share of) a GPU. What the caller may not see of it is null."""

    kind: Literal["session", "job"]
    id: str | None
    name: str | None
    project: str | None
    user: str | None
    share: float
    over_quota: bool


class GpuView(Wire):
    index: int
    memory_gib: float | None
    used_memory_gib: float | None = None
    utilisation: float | None = Field(None, description="0 to 1; null where nobody can measure it")
    foreign: float = Field(0, description="the share that is used outside the pool")
    slowness: float = Field(1, description="so many times as long as on its like do jobs take here")
    occupants: list[Occupant]


class NodeView(Wire):
    name: str
    node_pool: str
    environment: Environment
    gpu_type: str | None
    schedulable: bool
    drained: str | None = Field(None, description="why an administrator has drained it; null: nobody has")
    declared: bool
    gpus: list[GpuView]


class EnvironmentTotals(Wire):
    """GPUs of one environment."""

    gpus: float
    allocated: float
    over_quota: float
    free: float
    foreign: float = Field(0, description="GPUs used outside the pool")


class PoolView(Wire):
    declared: bool = Field(description="true where the GPUs are declared, not found by NVML")
    build: EnvironmentTotals
    train: EnvironmentTotals
    waiting: int
    nodes: list[NodeView]


class PartView(Wire):
    """How a project stands in a part of the pool that is shared out by itself; the rest has neither node pool nor
    type."""

    node_pool: str | None
    gpu_type: str | None
    guaranteed: float | None
    fair_share: float
    allocated: float
    demand: float
    over_quota: float


class GuaranteeChangeView(Wire):
    """From `at`, a project is guaranteed another number of GPUs."""

    at: float
    guaranteed: float | None = Field(description="null: without bound")


class ProjectView(Wire):
    """Amounts in GPUs. `could_start` is how many more would start now.

    `guaranteed_in_all` has what `quotas` guarantee, too; `parts` is empty where the whole pool is shared out as one.
    `guaranteed` is outside `windows`, and `guaranteed_now` and `guaranteed_in_all` are what is in force.
    """

    name: str
    parent: str | None
    guaranteed: float | None
    guaranteed_in_all: float | None
    limit: float | None
    weight: float | None
    priority: int
    members: list[str]
    groups: list[str]
    policy: PolicyEntry
    quotas: list[QuotaEntry]
    order: QueueOrder | None = Field(None, description="null: that of the project above, or of the settings")
    guaranteed_cpus: float | None = Field(None, description="null: those that come with its guaranteed GPUs")
    limit_cpus: float | None = None
    guaranteed_memory_gib: float | None = Field(None, description="null: what comes with its guaranteed GPUs")
    limit_memory_gib: float | None = None
    windows: list[WindowEntry] = Field(default_factory=list)
    guaranteed_now: float | None = Field(None, description="null: without bound")
    changes: list[GuaranteeChangeView] = Field(default_factory=list, description="the next ones of `guaranteed_now`")
    allocated_cpus: float = Field(0, description="of jobs that ask for CPUs")
    allocated_memory_gib: float = Field(0, description="of jobs that ask for memory")
    parts: list[PartView]
    takes_jobs: bool
    fair_share: float
    allocated: float
    demand: float
    over_quota: float
    could_start: float
    recent_use: float = Field(
        0, description="GPUs held on average, where what is past counts less and less (`usage_half_life`)"
    )
    running: int
    waiting: int


class ProjectList(Wire):
    projects: list[ProjectView]


class ServerPodView(Wire):
    """What a server's pod must have: it is in `namespace`, has `labels` and `tolerations`, and leaves its node to the
    scheduler of that name (`schedulerName`); its container has `limits`."""

    namespace: str
    labels: dict[str, str]
    scheduler: str
    limits: dict[str, str]
    tolerations: list[dict[str, Any]]


class SessionView(Wire):
    """`env` is what the server's process must have (`CUDA_VISIBLE_DEVICES`, `RUNAI_GPUS`); `pod` what its pod must,
    where the scheduler places servers on a Kubernetes cluster."""

    id: str
    user: str
    server: str
    state: SessionState
    reason: str
    gpus: float
    workers: list[WorkerView]
    env: dict[str, str]
    pod: ServerPodView | None = None
    declared: bool
    requested: float
    started: float | None


class SessionList(Wire):
    sessions: list[SessionView]


class Me(Wire):
    name: str
    admin: bool
    scopes: list[Literal["read", "submit", "admin"]]
    build_quota: float
    projects: list[str] = Field(description="those that take the caller's jobs, the default one first")


class Problem(Wire):
    """`application/problem+json` (RFC 9457): `detail` is the sentence for people, `field` the input at fault."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
