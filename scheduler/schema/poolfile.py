"""The keys of the pool file, and the result of applying it. Units as in `schema.wire`."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from scheduler.model import DeclaredLoad, Environment, IdleAction, PlacementStyle, QueueOrder, Settings, SurplusOrder
from scheduler.schema.wire import Name, Wire

Reason = Annotated[str, StringConstraints(max_length=200)]


class NodeDrain(Wire):
    reason: Reason = Field("", description="why the node gets no new work")


class NodeMove(Wire):
    node_pool: Name = Field(description="the node pool that the node belongs to from now on")


class NodePoolEntry(Wire):
    name: Name
    environment: Environment
    placement: PlacementStyle = PlacementStyle.PACK
    gpus: int | None = Field(
        None, ge=0, description="on a single machine, the number of its GPUs; absent: the remaining ones"
    )


class DefaultsEntry(Wire):
    """Values for what a job does not specify."""

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
    """The largest values that a job may request."""

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
    """Rules for the jobs of a project and of all projects below it; an absent key sets no rule."""

    defaults: DefaultsEntry = DefaultsEntry()
    maxima: MaximaEntry = MaximaEntry()
    allowed: AllowedEntry = AllowedEntry()


class RuleView(Wire):
    """A rule that holds for jobs; `source` is the project that sets it, null: the rules for all projects."""

    part: Literal["defaults", "maxima", "allowed"]
    name: str = Field(description="a key of that part of a policy")
    value: bool | float | list[str] | list[bool]
    source: str | None


class PolicyView(Wire):
    """All rules that hold for the jobs of a project, its own and inherited ones; null: those for all projects."""

    project: str | None
    rules: list[RuleView]


class PolicyList(Wire):
    """First the rules for all projects, then those of each project in the order of the pool file."""

    policies: list[PolicyView]


class QuotaEntry(Wire):
    """A project's quota of the GPUs of a node pool, of a type, or of a type in a node pool.

    If any project has a guarantee there, those GPUs form a partition, in which only such guarantees count; a project's
    own `guaranteed` applies to the rest of the pool.
    """

    node_pool: str | None = None
    gpu_type: str | None = None
    guaranteed: float | None = Field(None, ge=0, description="GPUs; null: this quota sets no guarantee")
    limit: float | None = Field(None, ge=0, description="GPUs; null: this quota sets no limit")


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
    """A time window in which the project has a different guarantee. A window whose `to` is not after its `from` ends on
    the next day; `days`, `first` and `last` refer to the day on which it starts."""

    model_config = ConfigDict(serialize_by_alias=True)

    days: Days = Field("mon-sun", description="days of the week, such as `mon-fri` or `tue,fri`")
    from_: TimeOfDay = Field("00:00", alias="from", description="start, in local time of `timezone`")
    to: TimeOfDay = Field("24:00", description="end, in local time of `timezone`")
    first: date | None = Field(None, description="first date; null: no first date")
    last: date | None = Field(None, description="last date; null: no last date")
    timezone: str = Field(description="name from the IANA time zone database, such as `Europe/Berlin`")
    guaranteed: float | None = Field(ge=0, description="GPUs; null: unlimited")


class ProjectEntry(Wire):
    name: Name
    parent: str | None = None
    guaranteed: float | None = Field(0, ge=0, description="GPUs; null: unlimited")
    limit: float | None = Field(None, ge=0, description="GPUs; null: no limit")
    weight: float | None = Field(None, ge=0, description="absent: the guarantee, or 1 if that is 0")
    priority: int = 0
    members: list[str] = Field(default_factory=list, description='user names; "*": everybody')
    groups: list[str] = Field(default_factory=list, description="JupyterHub groups")
    policy: PolicyEntry = PolicyEntry()
    quotas: list[QuotaEntry] = Field(default_factory=list, description="quotas of single node pools and types of GPU")
    order: QueueOrder | None = Field(
        None, description="order of its jobs of the same priority; null: that of the parent project, or of the settings"
    )
    guaranteed_cpus: float | None = Field(
        None, ge=0, description="CPUs; null: those that come with its guaranteed GPUs"
    )
    limit_cpus: float | None = Field(None, ge=0, description="CPUs; null: no limit")
    guaranteed_memory_gib: float | None = Field(
        None, ge=0, description="memory; null: what comes with its guaranteed GPUs"
    )
    limit_memory_gib: float | None = Field(None, ge=0, description="memory; null: no limit")
    windows: list[WindowEntry] = Field(
        default_factory=list, max_length=50, description="time windows in which the guarantee is different"
    )


class UserEntry(Wire):
    name: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    build_quota: float = Field(1, ge=0)


class UserGroupEntry(Wire):
    name: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    build_quota: float = Field(1, ge=0, description="GPUs for each of its users")


class IdleExceptionEntry(Wire):
    """Idle rules for some users or groups of JupyterHub; absent ones are as for everybody."""

    users: list[Annotated[str, StringConstraints(min_length=1, max_length=255)]] = Field(default_factory=list)
    groups: list[Annotated[str, StringConstraints(min_length=1, max_length=255)]] = Field(default_factory=list)
    timeout: float | None = Field(None, ge=0)
    grace: float | None = Field(None, ge=60)
    lend: float | None = Field(None, ge=0)
    action: IdleAction | None = None


class DeclaredLoadEntry(Wire):
    """What a declared GPU is shown to do while a job holds it. It is marked as declared, and no decision uses it."""

    use: float = Field(DeclaredLoad().use, ge=0, le=1)
    memory_gib: float = Field(80, gt=0, le=100_000)
    used_memory_gib: float = Field(60, ge=0, le=100_000)
    power_watts: float = Field(DeclaredLoad().power, ge=0, le=100_000)
    temperature: float = Field(DeclaredLoad().temperature, ge=0, le=150, description="°C")


class SettingsEntry(Wire):
    reclaim: Literal["guarantee", "fair_share"] = "fair_share"
    reservations: int = Field(1, ge=0)
    preemption_delay: float = Field(0, ge=0)
    time_aware: float = Field(
        0, ge=0, description="how much recent use lowers a project's share of the surplus; 0: not at all"
    )
    usage_half_life: float = Field(604_800, ge=1, description="seconds after which recent use counts half as much")
    lending: bool = Field(False, description="idle build GPUs may be lent to preemptible jobs")
    resize_interval: float = Field(
        300,
        ge=0,
        description="minimum run time in seconds of an elastic job's attempt before the job is restarted with more "
        "workers",
    )
    surplus: SurplusOrder = Field(
        SurplusOrder.WEIGHT,
        description="who gets what no guarantee covers: projects by weight, or first the jobs on the lowest service "
        "level",
    )
    order: QueueOrder = Field(QueueOrder.ARRIVAL, description="order of the jobs of projects that set none")
    service_levels: list[Annotated[float, Field(gt=0, le=1_000_000)]] = Field(
        default_factory=lambda: list(Settings().service_levels),
        max_length=20,
        description="GPU-hours after which a job moves to the next level, in the order `served`",
    )
    patience: float = Field(
        Settings().patience,
        ge=0,
        le=1000,
        description="a job that has waited this many times as long as it ran returns to the lowest level",
    )
    session_idle_timeout: float = Field(
        0, ge=0, description="seconds after which an idle notebook server is warned; 0: never"
    )
    session_idle_grace: float = Field(
        Settings().session_idle_grace,
        ge=60,
        description="seconds after the warning, after which its GPUs are lent or it is stopped, unless it is used",
    )
    session_idle_lend: float = Field(
        0,
        ge=0,
        description="seconds for which an idle server's GPUs are lent to preemptible jobs before it is stopped; they "
        "come back when it is used; 0: not lent. Only with `lending`",
    )
    session_idle_action: IdleAction = Field(
        IdleAction.STOP,
        description="what happens to a server that stays idle: `stop`, or `take_back`, which shuts down its kernels "
        "and leaves it running without GPUs",
    )
    session_idle_exceptions: list[IdleExceptionEntry] = Field(
        default_factory=list,
        max_length=1000,
        description="other idle rules for some users or groups; the first one that names a user or their group counts",
    )
    session_max_duration: float = Field(
        0,
        ge=0,
        description="seconds after which a notebook server is stopped, used or not; its user is warned "
        "`session_idle_grace` before; 0: never",
    )
    declared_load: DeclaredLoadEntry | None = Field(
        None, description="what declared GPUs are shown to do while jobs hold them; null: nothing is shown"
    )


class PoolFile(Wire):
    """The pool file, a YAML file that `jupyter runai apply -f pool.yaml` applies."""

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
    build_overcommit: bool = Field(False, description="the build quotas of `users` may exceed the number of build GPUs")
    keep_days: float | None = Field(
        90,
        gt=0,
        le=36_500,
        description="days after which an ended job and all its files are deleted; null: never",
    )
    max_jobs_per_user: int | None = Field(
        10_000, ge=1, description="unfinished jobs that each user may have; null: any number"
    )
    max_upload_gib_per_user: int | None = Field(
        200, ge=1, description="files that each user may have uploaded for jobs; null: any amount"
    )
    policy: PolicyEntry = Field(PolicyEntry(), description="rules for the jobs of all projects")
    topology: list[str] = Field(default_factory=list)
    drained: dict[Annotated[str, StringConstraints(min_length=1, max_length=253)], Reason] | None = Field(
        None, description="nodes that get no new work, with the reason for each; absent: the nodes that are drained now"
    )
    moved: dict[Annotated[str, StringConstraints(min_length=1, max_length=253)], Name] | None = Field(
        None,
        description="nodes in another node pool than that of their label or machine, with the node pool of each; "
        "absent: the nodes that are moved now",
    )
    settings: SettingsEntry = SettingsEntry()
    groups: list[UserGroupEntry] = Field(
        default_factory=list, description="build quotas of the users of JupyterHub groups; the largest one applies"
    )


class Change(Wire):
    """One line of a preview: what would be added, changed or removed."""

    action: Literal["add", "change", "remove"]
    kind: Literal["node_pool", "project", "user", "group", "settings", "pool", "job", "session", "gpu"]
    name: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class AuditEntry(Change):
    """A change that was made to the pool, or to another user's job or session, or a GPU that has failed or works again.
    `user` is null for changes by the pool file that the service is started with, for what its settings bring about, and
    for GPUs."""

    id: int
    at: float
    user: str | None


class AuditPage(Wire):
    """Newest first. Pass `next` as `after` for the next page; null: this is the last one."""

    entries: list[AuditEntry]
    next: int | None


class EffectView(Wire):
    """What would happen immediately to some jobs of a project; `ids` has the first 20 of them."""

    action: Literal["stop", "move", "resize", "start"]
    project: str
    jobs: int
    gpus: float = Field(description="GPUs that they hold now, or would hold after they have started")
    ids: list[str]


class Applied(Wire):
    """The result of applying a pool file or of a preview. `warnings` are sentences for the administrator, such as that
    build quotas exceed the build GPUs. A preview has the `effects` that the change would have now."""

    preview: bool
    changes: list[Change]
    warnings: list[str]
    effects: list[EffectView] = Field(default_factory=list)
