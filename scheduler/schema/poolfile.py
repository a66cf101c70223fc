"""The keys of the pool file, and what comes of applying one. Units as in `schema.wire`."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from scheduler.model import Environment, PlacementStyle, QueueOrder, Settings
from scheduler.schema.wire import Name, Wire

Reason = Annotated[str, StringConstraints(max_length=200)]


class NodeDrain(Wire):
    reason: Reason = Field("", description="why the node is to get no new work")


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

    Of a part of which something is guaranteed to any project, only these guarantees count; `guaranteed` of a project is
    for the rest of the pool.
    """

    node_pool: str | None = None
    gpu_type: str | None = None
    guaranteed: float | None = Field(None, ge=0, description="GPUs; null: nothing is said")
    limit: float | None = Field(None, ge=0, description="GPUs; null: none of its own")


def _quoted(time: object) -> object:
    """YAML reads 12:00 without quotes as a number."""
    if not isinstance(time, str):
        raise ValueError('must be a time of day in quotes, such as "09:00"')
    return time


TimeOfDay = Annotated[
    str, StringConstraints(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"), BeforeValidator(_quoted)
]

_DAY = "(mon|tue|wed|thu|fri|sat|sun)"

Days = Annotated[str, StringConstraints(pattern=f"^{_DAY}(-{_DAY})?(,{_DAY}(-{_DAY})?)*$")]


class WindowEntry(Wire):
    """A time at which the project is guaranteed another number of GPUs. A window that does not end after it begins
    ends on the next day; `days`, `first` and `last` are those on which it begins."""

    model_config = ConfigDict(serialize_by_alias=True)

    days: Days = Field("mon-sun", description="of the week, such as `mon-fri` or `tue,fri`")
    from_: TimeOfDay = Field("00:00", alias="from", description="by the clocks of the time zone")
    to: TimeOfDay = Field("24:00", description="by the clocks of the time zone")
    first: date | None = Field(None, description="the first date; null: none")
    last: date | None = Field(None, description="the last date; null: none")
    timezone: str = Field(description="a name of the IANA database, such as `Europe/Berlin`")
    guaranteed: float | None = Field(ge=0, description="GPUs; null: without bound")


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
    quotas: list[QuotaEntry] = Field(default_factory=list, description="what it has of a node pool or of a type of GPU")
    order: QueueOrder | None = Field(
        None, description="of its jobs of one priority; null: that of the project above, or of the settings"
    )
    guaranteed_cpus: float | None = Field(
        None, ge=0, description="CPUs; null: those that come with the GPUs that it is guaranteed"
    )
    limit_cpus: float | None = Field(None, ge=0, description="CPUs; null: none")
    guaranteed_memory_gib: float | None = Field(
        None, ge=0, description="memory; null: what comes with the GPUs that it is guaranteed"
    )
    limit_memory_gib: float | None = Field(None, ge=0, description="memory; null: none")
    windows: list[WindowEntry] = Field(
        default_factory=list, max_length=50, description="times at which another number of GPUs is guaranteed"
    )


class UserEntry(Wire):
    name: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    build_quota: float = Field(1, ge=0)


class SettingsEntry(Wire):
    reclaim: Literal["guarantee", "fair_share"] = "fair_share"
    reservations: int = Field(1, ge=0)
    preemption_delay: float = Field(0, ge=0)
    time_aware: float = Field(
        0, ge=0, description="how much recent use lowers a project's part of the surplus; 0: not at all"
    )
    usage_half_life: float = Field(604_800, ge=1, description="seconds after which recent use counts half as much")
    lending: bool = Field(False, description="idle build GPUs may be lent to preemptible jobs")
    resize_interval: float = Field(
        300,
        ge=0,
        description="seconds that an elastic job's attempt runs at least before it is ended to begin again with more "
        "workers",
    )
    order: QueueOrder = Field(QueueOrder.ARRIVAL, description="of the projects that set none")
    service_levels: list[Annotated[float, Field(gt=0, le=1_000_000)]] = Field(
        default_factory=lambda: list(Settings().service_levels),
        max_length=20,
        description="GPU-hours after which a job is on the next level, in the order `served`",
    )
    patience: float = Field(
        Settings().patience,
        ge=0,
        le=1000,
        description="a job that has waited so many times as long as it ran is on the lowest level again",
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
    build_overcommit: bool = Field(False, description="`users` may be promised more GPUs to build with than there are")
    keep_days: float | None = Field(
        90,
        gt=0,
        le=36_500,
        description="jobs that ended so long ago are deleted with all they left; null: never",
    )
    max_jobs_per_user: int | None = Field(
        10_000, ge=1, description="unfinished jobs that each user may have; null: any number"
    )
    max_upload_gib_per_user: int | None = Field(
        200, ge=1, description="files that each user may have put for jobs; null: any amount"
    )
    policy: PolicyEntry = Field(PolicyEntry(), description="rules for the jobs of all projects")
    topology: list[str] = Field(default_factory=list)
    drained: dict[Annotated[str, StringConstraints(min_length=1, max_length=253)], Reason] | None = Field(
        None, description="nodes that get no new work, each with the reason; absent: those that are drained now"
    )
    settings: SettingsEntry = SettingsEntry()


class Change(Wire):
    """One line of a preview: what would be added, changed or removed."""

    action: Literal["add", "change", "remove"]
    kind: Literal["node_pool", "project", "user", "settings", "pool", "job", "session"]
    name: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class AuditEntry(Change):
    """A change of the pool that was made, or of somebody else's job or session; `user` is null for the pool file that
    the service is started with."""

    id: int
    at: float
    user: str | None


class AuditPage(Wire):
    """Newest first; `next` is `after` of the page that follows, null where there is none."""

    entries: list[AuditEntry]
    next: int | None


class EffectView(Wire):
    """What would happen at once to some jobs of a project; `ids` names the first 20 of them."""

    action: Literal["stop", "move", "resize", "start"]
    project: str
    jobs: int
    gpus: float = Field(description="that they hold now, or would hold once they have started")
    ids: list[str]


class Applied(Wire):
    """`warnings` says what an administrator should know (more build GPUs promised than there are, say). A preview has
    the `effects` that the change would have now."""

    preview: bool
    changes: list[Change]
    warnings: list[str]
    effects: list[EffectView] = Field(default_factory=list)
