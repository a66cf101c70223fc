"""The API's views of the pool, its projects and sessions, and the caller. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from scheduler.model import Environment, Isolation, QueueOrder, SessionState
from scheduler.schema.jobs import WorkerView
from scheduler.schema.poolfile import PolicyEntry, QuotaEntry, WindowEntry
from scheduler.schema.wire import Wire


class Occupant(Wire):
    """The session or job that holds a GPU or a share of one. Details that the caller may not see are null."""

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
    utilisation: float | None = Field(None, description="0 to 1; null if it cannot be measured")
    declared: bool = Field(False, description="its use is what the pool file declares: nothing is measured")
    foreign: float = Field(0, description="share that is used outside the pool")
    failure: str | None = Field(None, description="why the GPU fails and gets no work; null: it works")
    slowness: float = Field(1, description="how many times as long jobs take here as on other GPUs of its type")
    occupants: list[Occupant]


class NodeView(Wire):
    name: str
    node_pool: str
    environment: Environment
    gpu_type: str | None
    schedulable: bool
    drained: str | None = Field(None, description="why an administrator has drained it; null: it is not drained")
    declared: bool
    gpu_parts: int = Field(
        0, description="into how many parts each GPU is divided: 1: it is given whole; 0: any share of it is given"
    )
    isolation: Isolation = Field(
        Isolation.UNKNOWN, description="what stands between workloads that have parts of one GPU"
    )
    gpus: list[GpuView]


class EnvironmentTotals(Wire):
    """GPUs of one environment."""

    gpus: float
    allocated: float
    over_quota: float
    free: float
    foreign: float = Field(0, description="GPUs used outside the pool")
    failing: float = Field(0, description="GPUs that fail and get no work")


class PoolView(Wire):
    declared: bool = Field(description="true if the GPUs are declared instead of found by NVML")
    build: EnvironmentTotals
    train: EnvironmentTotals
    waiting: int
    nodes: list[NodeView]


class PartView(Wire):
    """A project's amounts in one partition of the pool: the GPUs of a node pool, of a type, or of a type in a node
    pool. Both are null for the rest of the pool."""

    node_pool: str | None
    gpu_type: str | None
    guaranteed: float | None
    fair_share: float
    allocated: float
    demand: float
    over_quota: float


class GuaranteeChangeView(Wire):
    """A scheduled change of a project's guarantee, which takes effect at `at`."""

    at: float
    guaranteed: float | None = Field(description="null: unlimited")


class ProjectView(Wire):
    """A project and its amounts in GPUs. `could_start` is the number of GPUs that one more job could start on now.

    `guaranteed` applies outside `windows`. `guaranteed_now` applies at present, and `guaranteed_in_all` is the total
    with the guarantees of `quotas`. `parts` is empty if the pool has no partitions.
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
    order: QueueOrder | None = Field(None, description="null: the order of the parent project, or of the settings")
    guaranteed_cpus: float | None = Field(None, description="null: the CPUs that come with its guaranteed GPUs")
    limit_cpus: float | None = None
    guaranteed_memory_gib: float | None = Field(
        None, description="null: the memory that comes with its guaranteed GPUs"
    )
    limit_memory_gib: float | None = None
    windows: list[WindowEntry] = Field(default_factory=list)
    guaranteed_now: float | None = Field(None, description="null: unlimited")
    changes: list[GuaranteeChangeView] = Field(default_factory=list, description="the next changes of `guaranteed_now`")
    allocated_cpus: float = Field(0, description="CPUs held by jobs that request CPUs")
    allocated_memory_gib: float = Field(0, description="memory held by jobs that request memory")
    parts: list[PartView]
    takes_jobs: bool
    fair_share: float
    allocated: float
    demand: float
    over_quota: float
    could_start: float
    recent_use: float = Field(0, description="average number of GPUs held; older use counts less (`usage_half_life`)")
    running: int
    waiting: int


class ProjectList(Wire):
    projects: list[ProjectView]


class ServerPodView(Wire):
    """What the pod of a notebook server must have. `scheduler` is its `schedulerName`; `limits` are the resource limits
    of its container."""

    namespace: str
    labels: dict[str, str]
    scheduler: str
    limits: dict[str, str]
    tolerations: list[dict[str, Any]]


class SessionView(Wire):
    """A session. `env` has the environment variables that the server's process needs (`CUDA_VISIBLE_DEVICES`,
    `RUNAI_GPUS`); `pod` describes its pod if the scheduler places servers on a Kubernetes cluster."""

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
    idle_since: float | None = Field(
        None,
        description="since when nobody has used its GPUs, no kernel was busy and no person did anything, as far as it "
        "is known; null: it is in use, nobody can tell, or this is an event",
    )
    stops_at: float | None = Field(
        None,
        description="when the server is stopped, or its GPUs are taken back, an idle one unless it is used before; "
        "null: it was not warned",
    )
    takes_back: bool = Field(False, description="at `stops_at` its GPUs are taken back, and it keeps running")
    lends_at: float | None = Field(None, description="when its GPUs are lent to jobs, unless it is used before")
    lent_since: float | None = Field(None, description="since when its GPUs are lent to jobs; null: they are not")
    lent: list[WorkerView] = Field(default_factory=list, description="the GPUs that it lends, which its workers lack")
    recalled_since: float | None = Field(
        None, description="since when it is used again, and the jobs on the GPUs that it lends are being stopped"
    )
    taken_since: float | None = Field(
        None, description="since when it runs without its GPUs, which were taken back because it was idle"
    )
    stops_because: Literal["idle", "max_duration"] | None = Field(
        None, description="`max_duration`: it has run for the longest time that a session may last"
    )
    memory_warning: str = Field(
        "", description="what its kernels use too much of a shared GPU's memory; empty: nothing"
    )
    position: int | None = Field(None, description="its place in line for GPUs, from 1; null: it does not wait in line")
    estimated_start: float | None = Field(
        None, description="when its GPUs are likely to be free; null: that depends on a session without a known end"
    )


class SessionList(Wire):
    """`line`: the servers that wait in line for GPUs, the first one first."""

    sessions: list[SessionView]
    line: list[SessionView] = Field(default_factory=list)


class JobCounts(Wire):
    """Unfinished jobs: `running` includes those that start, `stopping` also those that save and pause."""

    running: int = 0
    stopping: int = 0
    waiting: int = 0
    paused: int = 0


class Me(Wire):
    name: str
    admin: bool
    scopes: list[Literal["read", "submit", "admin"]]
    build_quota: float
    projects: list[str] = Field(description="projects that the caller may submit jobs to, the default one first")
    jobs: JobCounts = Field(description="the caller's own jobs")
    team_jobs: JobCounts = Field(description="the jobs of all projects whose jobs the caller may see")


class Problem(Wire):
    """`application/problem+json` (RFC 9457): `detail` is a sentence for people; `field` names the invalid input."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
