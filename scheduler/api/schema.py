"""The types of the API under `/api/v1`: what is sent and what comes back. OpenAPI is generated from them.

Units at this door are people's: GPUs and CPUs are numbers (0.25 is a quarter of a GPU), memory is GiB, times are
seconds since the epoch, durations are seconds. Unknown keys are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from scheduler.model import (
    Ending,
    Environment,
    Framework,
    JobKind,
    JobState,
    Parameter,
    PlacementStyle,
    SessionState,
)

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._@ /-]{0,126}[A-Za-z0-9])?$")]
"""A name of a project, node pool or job: 1 to 128 letters, digits and `. _ @ / -`, with a letter or digit at both ends."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of a bundle, in hexadecimal."""


class Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


# -- submitting ---------------------------------------------------------------------------------------------


AfterId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}(:any)?$")]
"""A job or an array that comes first; `:any` behind it: whether that succeeds or not."""

Parameters = Annotated[
    dict[Annotated[str, StringConstraints(max_length=200)], Parameter], Field(max_length=100)
]
"""Values by name, which a job finds as JSON in `RUNAI_PARAMETERS`."""


class FileSubmit(Wire):
    """A large file of the working directory, made of blobs, so that the parts that have not changed are put once."""

    path: str = Field(min_length=1, max_length=4096, description="below the working directory, with `/`")
    blobs: list[Digest] = Field(max_length=2000)
    executable: bool = False


class GroupSubmit(Wire):
    """Some workers of a gang, of one shape of their own: a launcher, say, or parameter servers."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
    workers: int = Field(1, ge=1, le=4096)
    gpus: float = Field(1, ge=0, le=1024, description="per worker; a fraction is at most one GPU")
    gpu_memory_gib: float | None = Field(None, gt=0, description="instead of gpus: memory on one GPU")
    cpus: float | None = Field(None, gt=0)
    memory_gib: float | None = Field(None, gt=0)
    leader: bool = Field(
        False,
        description="when its workers have ended well the job has succeeded, and the others are stopped",
    )


class JobSubmit(Wire):
    """What is sent to `POST /jobs`. The owner is who sends it, never a field."""

    name: Name | None = None
    project: str | None = Field(None, description="absent: the first project that takes the caller's jobs")
    kind: JobKind = JobKind.COMMAND
    command: list[str] = Field(min_length=1, max_length=1000, description="argv; no shell is involved")
    bundle: Digest | None = Field(
        None, description="a tar.gz put under /blobs; unpacked as the working directory"
    )
    files: list[FileSubmit] = Field(
        default_factory=list,
        max_length=5000,
        description="what the working directory holds beside the bundle",
    )
    env: dict[str, str] = Field(default_factory=dict, max_length=500)
    outputs: list[str] = Field(
        default_factory=list, max_length=100, description="variables a cell brings back"
    )
    gpus: float = Field(1, ge=0, le=1024, description="per worker; a fraction is at most one GPU")
    gpu_memory_gib: float | None = Field(None, gt=0, description="instead of gpus: memory on one GPU")
    gpu_types: list[str] | None = None
    cpus: float | None = Field(None, gt=0)
    memory_gib: float | None = Field(None, gt=0)
    workers: int = Field(1, ge=1, le=4096)
    min_workers: int | None = Field(None, ge=1, description="the gang; absent: workers")
    framework: Framework = Field(Framework.NONE, description="how its workers are told of each other")
    groups: list[GroupSubmit] = Field(
        default_factory=list,
        max_length=16,
        description="instead of workers and what each gets: workers of several shapes, which start together",
    )
    node_pools: list[str] | None = Field(None, description="in order of preference")
    priority: int = Field(50, ge=0, le=1000)
    preemptible: bool = True
    require: str | None = None
    prefer: str | None = None
    min_runtime: float = Field(0, ge=0)
    max_runtime: float | None = Field(None, gt=0, description="an attempt is stopped after so long")
    idle_timeout: float | None = Field(
        None,
        ge=60,
        description="it is stopped when its GPUs have been idle for so long, where that can be measured",
    )
    expected_runtime: float | None = Field(
        None, gt=0, description="how long it will run; an estimate: nobody is stopped for it"
    )
    grace: float = Field(30, ge=0, le=3600)
    retries: int = Field(0, ge=0, le=100)
    after: list[AfterId] = Field(
        default_factory=list, max_length=100, description="start when these have succeeded"
    )
    parameters: Parameters = Field(default_factory=dict)


class ArrayMember(Wire):
    """What one job of an array has for itself; absent: what `job` says."""

    index: int = Field(ge=0, le=999_999, description="its RUNAI_ARRAY_INDEX")
    command: list[str] | None = Field(None, min_length=1, max_length=1000)
    parameters: Parameters | None = None


class ArraySubmit(Wire):
    """Many jobs as one, all kept or none: `job`, once for each of `members`."""

    job: JobSubmit
    members: list[ArrayMember] = Field(min_length=1, max_length=1000)
    at_once: int | None = Field(None, ge=1, description="so many may hold GPUs at the same time; absent: all")


# -- jobs ---------------------------------------------------------------------------------------------------


class WorkerView(Wire):
    rank: int
    node: str
    gpus: list[int]
    share: float


class AttemptView(Wire):
    number: int
    created: float
    started: float | None
    ended: float | None
    workers: list[WorkerView]
    exit_codes: list[int | None]
    reason: str
    ending: Ending | None = Field(
        None,
        description="why it ended, or is ending; after `resized` and `moved` the next attempt begins at once",
    )


class JobView(Wire):
    """A job as its owner, a member of its project or an administrator sees it.

    `mine` is true for the owner, who alone may read logs and outputs. `position` counts from 1 in the project's queue.
    """

    id: str
    name: str
    project: str
    user: str
    mine: bool
    kind: JobKind
    state: JobState
    reason: str
    blocked_by: dict[str, Any] | None = None
    position: int | None = None
    estimated_start: float | None = None
    submitted: float
    started: float | None
    ended: float | None
    gpus: float
    workers: int
    min_workers: int
    groups: list[GroupSubmit]
    total_gpus: float
    priority: int
    preemptible: bool
    over_quota: bool
    attempts: list[AttemptView]
    outputs: list[str]
    exit_code: int | None
    after: list[str] = Field(
        default_factory=list, description="what its owner sent it to come after; others see none"
    )
    array: str | None = Field(None, description="the array that it is one of")
    index: int | None = None
    parameters: dict[str, Parameter] = Field(default_factory=dict)


ATTEMPT_LINE = "\n--- attempt {} ---\n"
"""Stands between the output of one attempt and that of the next where a log is followed over both."""


class DisplayLine(Wire):
    """One output message of a job, as nbformat has it; also `update_display_data` and `clear_output`.

    `log` and `display` are how far the reader has come with it: passed on with `attempt`, they go on after it.
    """

    attempt: int
    log: int
    display: int
    output: dict[str, Any]


class JobPage(Wire):
    jobs: list[JobView]
    next: str | None = Field(None, description="pass as `after` for the next page")


class ArrayView(Wire):
    """The jobs of an array, by their indices."""

    id: str
    jobs: list[JobView]


class HolderJob(Wire):
    """A job that holds GPUs. `expected_end` is null where nobody knows how long it runs."""

    id: str
    name: str
    user: str
    gpus: float
    over_quota: bool
    expected_end: float | None


class Holder(Wire):
    """What one project (null: the sessions) holds of the GPUs that a job waits for; `jobs` are those the caller may see."""

    project: str | None
    gpus: float
    over_quota: float
    jobs: list[HolderJob]


class SpeedView(Wire):
    """How fast jobs like this one ran on a type of GPU: `relative` to the fastest (1), by so many of their `runs`."""

    gpu_type: str
    relative: float
    spread: float | None = Field(description="the same over several nodes, where that was measured, too")
    per_second: float
    unit: Literal["steps", "runs"] = Field(
        description="what is counted: steps as they report them, or whole runs"
    )
    runs: int


class Explanation(Wire):
    """Why a job stands where it stands, by the latest plan. `reason` is for people, `blocked_by` the same for programs.

    While it waits: it is number `position` of the `waiting` jobs of its project; `holders` hold the GPUs that it waits for, of
    which `free` are free; any one of `would_help` would bring it nearer to its start.
    """

    id: str
    name: str
    project: str
    state: JobState
    action: str | None = Field(description="what the plan does with it; null before the first plan")
    reason: str
    blocked_by: dict[str, Any] | None
    position: int | None
    waiting: int
    estimated_start: float | None
    not_before: float | None = Field(
        description="where the look ahead has seen so far, and no start until then"
    )
    estimate: str = Field(description="what the estimated start rests on, or why there is none")
    expected_runtime: float | None
    runtime_source: Literal["declared", "learned", "limit"] | None = Field(
        description="by the owner's word, from earlier jobs like it, or the longest that it may run"
    )
    speeds: list[SpeedView] = Field(
        description="how fast jobs like it ran on which type of GPU, the fastest first"
    )
    speed: str = Field(description="the same in a sentence, where there is something to compare")
    size: str = Field(description="of an elastic job that runs: how large it is, and when it may grow")
    after: int = Field(description="how many others have to stop or shrink first")
    free: float
    holders: list[Holder]
    would_help: list[str]


class OutputFile(Wire):
    path: str
    size: int
    modified: float


class OutputList(Wire):
    files: list[OutputFile]


class MetricsPage(Wire):
    """What a job has reported: each point has its `time`, `attempt` and `rank`, and what `job.report()` was given."""

    points: list[dict[str, Any]]
    next: int = Field(description="pass as `offset` for what comes later")


class BlobView(Wire):
    digest: Digest
    size: int


# -- the pool -----------------------------------------------------------------------------------------------


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
    occupants: list[Occupant]


class NodeView(Wire):
    name: str
    node_pool: str
    environment: Environment
    gpu_type: str | None
    schedulable: bool
    declared: bool
    gpus: list[GpuView]


class EnvironmentTotals(Wire):
    """GPUs of one environment."""

    gpus: float
    allocated: float
    over_quota: float
    free: float


class PoolView(Wire):
    declared: bool = Field(description="true where the GPUs are declared, not found by NVML")
    build: EnvironmentTotals
    train: EnvironmentTotals
    waiting: int
    nodes: list[NodeView]


class PartView(Wire):
    """How a project stands in a part of the pool that is shared out by itself; the rest has neither node pool nor type."""

    node_pool: str | None
    gpu_type: str | None
    guaranteed: float | None
    fair_share: float
    allocated: float
    demand: float
    over_quota: float


class ProjectView(Wire):
    """Amounts in GPUs. `could_start` is how many more would start now.

    `guaranteed_in_all` has what `quotas` guarantee, too; `parts` is empty where the whole pool is shared out as one.
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
    parts: list[PartView]
    takes_jobs: bool
    fair_share: float
    allocated: float
    demand: float
    over_quota: float
    could_start: float
    running: int
    waiting: int


class ProjectList(Wire):
    projects: list[ProjectView]


# -- sessions -----------------------------------------------------------------------------------------------


class SessionOpen(Wire):
    """What a spawner sends: a lease for `user`'s server. Asked again for the same user and server it gives the same lease."""

    user: str
    server: str = ""
    gpus: float = Field(1, ge=0, le=1024)
    gpu_memory_gib: float | None = Field(None, gt=0)


class SessionView(Wire):
    """`env` is what the server's process must have (`CUDA_VISIBLE_DEVICES`, `RUNAI_GPUS`)."""

    id: str
    user: str
    server: str
    state: SessionState
    reason: str
    gpus: float
    workers: list[WorkerView]
    env: dict[str, str]
    declared: bool
    requested: float
    started: float | None


class SessionList(Wire):
    sessions: list[SessionView]


# -- who, and what changed ----------------------------------------------------------------------------------


class Me(Wire):
    name: str
    admin: bool
    scopes: list[Literal["read", "submit", "admin"]]
    build_quota: float
    projects: list[str] = Field(description="those that take the caller's jobs, the default one first")


class Event(Wire):
    """One line of the append-only record, as `GET /events` streams it (`id`, `event: kind`, `data: this`).

    `kind` is one of job.submitted, job.state, job.reason, job.deleted, session.state, project.changed, pool.changed.
    The view of the thing as it is now comes along where there is one and the caller may see it.
    """

    id: int
    at: float
    kind: str
    subject: str
    data: dict[str, Any]
    job: JobView | None = None
    session: SessionView | None = None


class Problem(Wire):
    """`application/problem+json` (RFC 9457): `detail` is the sentence for people, `field` the input at fault."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None


# -- the pool file ------------------------------------------------------------------------------------------


class NodePoolEntry(Wire):
    name: Name
    environment: Environment
    placement: PlacementStyle = PlacementStyle.PACK
    gpus: int | None = Field(None, ge=0, description="on one machine: how many of its GPUs; absent: the rest")


class DefaultsEntry(Wire):
    """What a job gets where it says nothing."""

    gpus: float | None = Field(None, ge=0, description="per worker")
    cpus: float | None = Field(None, gt=0, description="per worker")
    memory_gib: float | None = Field(None, gt=0, description="per worker")
    priority: int | None = Field(None, ge=0, le=1000)
    preemptible: bool | None = None
    min_runtime: float | None = Field(None, ge=0, description="seconds")
    max_runtime: float | None = Field(None, gt=0, description="seconds")
    idle_timeout: float | None = Field(None, ge=60, description="seconds")
    grace: float | None = Field(None, ge=0, le=3600, description="seconds")
    retries: int | None = Field(None, ge=0, le=100)
    gpu_types: list[str] | None = Field(None, min_length=1)
    node_pools: list[str] | None = Field(None, min_length=1, description="in order of preference")


class MaximaEntry(Wire):
    """The most that a job may ask for."""

    gpus: float | None = Field(None, ge=0, description="per worker")
    cpus: float | None = Field(None, gt=0, description="per worker")
    memory_gib: float | None = Field(None, gt=0, description="per worker")
    total_gpus: float | None = Field(None, ge=0, description="all workers together")
    workers: int | None = Field(None, ge=1)
    priority: int | None = Field(None, ge=0, le=1000)
    min_runtime: float | None = Field(None, ge=0, description="seconds")
    max_runtime: float | None = Field(None, gt=0, description="seconds")
    idle_timeout: float | None = Field(None, ge=60, description="seconds")
    grace: float | None = Field(None, ge=0, le=3600, description="seconds")
    retries: int | None = Field(None, ge=0, le=100)


class AllowedEntry(Wire):
    """The values that a job may choose from."""

    gpu_types: list[str] | None = Field(None, min_length=1)
    node_pools: list[str] | None = Field(None, min_length=1)
    preemptible: list[bool] | None = Field(None, min_length=1)


class PolicyEntry(Wire):
    """Rules for the jobs of a project and of all below it; what is absent is not ruled."""

    defaults: DefaultsEntry = DefaultsEntry()
    maxima: MaximaEntry = MaximaEntry()
    allowed: AllowedEntry = AllowedEntry()


class QuotaEntry(Wire):
    """What a project has of the GPUs of a node pool, of a type, or of a type in a node pool.

    Of a part of which something is guaranteed to any project, only these guarantees count; `guaranteed` of a project is for
    the rest of the pool.
    """

    node_pool: str | None = None
    gpu_type: str | None = None
    guaranteed: float | None = Field(None, ge=0, description="GPUs; null: nothing is said")
    limit: float | None = Field(None, ge=0, description="GPUs; null: none of its own")


class ProjectEntry(Wire):
    name: Name
    parent: str | None = None
    guaranteed: float | None = Field(0, ge=0, description="GPUs; null: without bound")
    limit: float | None = Field(None, ge=0, description="GPUs; null: none")
    weight: float | None = Field(None, ge=0, description="absent: the guarantee, or 1 where that is 0")
    priority: int = 0
    members: list[str] = Field(default_factory=list, description='user names; "*": everybody')
    groups: list[str] = Field(default_factory=list, description="JupyterHub groups")
    policy: PolicyEntry = PolicyEntry()
    quotas: list[QuotaEntry] = Field(
        default_factory=list, description="what it has of a node pool or of a type of GPU"
    )


class UserEntry(Wire):
    name: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    build_quota: float = Field(1, ge=0)


class SettingsEntry(Wire):
    reclaim: Literal["guarantee", "fair_share"] = "fair_share"
    reservations: int = Field(1, ge=0)
    preemption_delay: float = Field(0, ge=0)
    time_aware: float = Field(0, ge=0)
    lending: bool = Field(False, description="idle build GPUs may be lent to preemptible jobs")
    resize_interval: float = Field(
        300,
        ge=0,
        description="seconds that an elastic job's attempt runs at least before it is ended to begin again with more workers",
    )


class PoolFile(Wire):
    """The one YAML file that `jupyter runai apply -f pool.yaml` brings about."""

    node_pools: list[NodePoolEntry] = Field(
        default_factory=lambda: [
            NodePoolEntry(name="build", environment=Environment.BUILD),
            NodePoolEntry(name="train", environment=Environment.TRAIN),
        ]
    )
    projects: list[ProjectEntry] = Field(
        default_factory=lambda: [ProjectEntry(name="default", members=["*"])], min_length=1
    )
    users: list[UserEntry] = Field(default_factory=list)
    default_build_quota: float = Field(1, ge=0)
    build_overcommit: bool = Field(
        False, description="`users` may be promised more GPUs to build with than there are"
    )
    keep_days: float | None = Field(
        90,
        gt=0,
        le=36_500,
        description="jobs that ended so long ago are deleted with all they left; null: never",
    )
    policy: PolicyEntry = Field(PolicyEntry(), description="rules for the jobs of all projects")
    topology: list[str] = Field(default_factory=list)
    settings: SettingsEntry = SettingsEntry()


class Change(Wire):
    """One line of a preview: what would be added, changed or removed."""

    action: Literal["add", "change", "remove"]
    kind: Literal["node_pool", "project", "user", "settings", "pool"]
    name: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class Applied(Wire):
    """`warnings` says what an administrator should know (more build GPUs promised than there are, say)."""

    preview: bool
    changes: list[Change]
    warnings: list[str]
