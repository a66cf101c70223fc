"""The entries of a scenario file. Unknown keys are refused; a number in quotes is not a number."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from scheduler.model import Environment, Isolation, QueueOrder
from scheduler.schema import NodePoolEntry, QuotaEntry, SettingsEntry, UserEntry, Wire

Text = Annotated[str, Field(min_length=1, max_length=255)]
Amount = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
Time = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Throughput = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
GpuIndex = Annotated[int, Field(ge=0)]


class ForeignGpuEntry(Wire):
    index: GpuIndex
    share: Annotated[float, Field(gt=0, le=1)] = 1


class ForeignEntry(Wire):
    """What others use on a node. `unnumbered` is how many GPUs they use besides `gpus`, where their numbers are not
    known."""

    gpus: list[ForeignGpuEntry] = Field(default_factory=list)
    unnumbered: Amount = 0
    cpus: Amount = 0
    memory_gib: Amount = 0


class NodeEntry(Wire):
    name: Text
    gpus: int = Field(ge=0, le=1024)
    gpu_type: Text | None = None
    gpu_memory_gib: Amount | None = None
    cpus: Amount | None = None
    memory_gib: Amount | None = None
    node_pool: Text = "train"
    labels: dict[str, str] = Field(default_factory=dict)
    links: list[list[GpuIndex]] = Field(default_factory=list)
    schedulable: bool = True
    gpu_parts: int = Field(0, ge=0, le=31)
    isolation: Isolation = Isolation.UNKNOWN
    foreign: ForeignEntry = ForeignEntry()


class ChangeEntry(Wire):
    """From `at`, the project is guaranteed another number of GPUs."""

    at: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    guaranteed: Amount | None
    timezone: str = "UTC"


class ProjectEntry(Wire):
    name: Text
    parent: Text | None = None
    guaranteed: Amount | None = 0
    limit: Amount | None = None
    weight: Amount | None = None
    priority: int = 0
    usage: Amount = 0
    created: Time = 0
    order: QueueOrder | None = None
    quotas: list[QuotaEntry] = Field(default_factory=list)
    guaranteed_cpus: Amount | None = None
    limit_cpus: Amount | None = None
    guaranteed_memory_gib: Amount | None = None
    limit_memory_gib: Amount | None = None
    changes: list[ChangeEntry] = Field(default_factory=list, max_length=50)


class WorkerEntry(Wire):
    node: Text
    gpus: list[GpuIndex] | None = None


class GroupEntry(Wire):
    """Some workers of a gang, of one shape of their own."""

    name: Text
    workers: Count = 1
    gpus: Amount | None = None
    gpu_memory_gib: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    cpus: Amount | None = None
    memory_gib: Amount | None = None


class JobEntry(Wire):
    """`lent`: the GPUs that an idle session lends instead of holding them; `recalled`: it is to get them back now.

    Older files say `speeds` for `throughputs` and `claim` for `nomination`.
    """

    name: Text
    project: Text | None = None
    environment: Environment = Environment.TRAIN
    user: Text | None = None
    priority: int = 50
    preemptible: bool = True
    submitted: Time = 0
    workers: Count = 1
    min_workers: Count | None = None
    gpus: Amount | None = None
    gpu_memory_gib: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    gpu_types: list[Text] | None = None
    node_pools: list[Text] | None = None
    cpus: Amount | None = None
    memory_gib: Amount | None = None
    require: Text | None = None
    prefer: Text | None = None
    min_runtime: Amount = 0
    expected_runtime: Amount | None = None
    throughputs: dict[Text, Throughput] = Field(
        default_factory=dict, validation_alias=AliasChoices("throughputs", "speeds")
    )
    spread_throughputs: dict[Text, Throughput] = Field(
        default_factory=dict, validation_alias=AliasChoices("spread_throughputs", "spread_speeds")
    )
    groups: list[GroupEntry] = Field(default_factory=list)
    avoids: list[Text] = Field(default_factory=list)
    state: Literal["queued", "running", "stopping"] = "queued"
    started: Time | None = None
    checkpointed: Time | None = None
    preempted: Time | None = None
    preemptions: int = Field(0, ge=0)
    served: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    placement: list[WorkerEntry] = Field(default_factory=list)
    nomination: list[WorkerEntry] = Field(default_factory=list, validation_alias=AliasChoices("nomination", "claim"))
    lent: list[WorkerEntry] = Field(default_factory=list)
    recalled: bool = False


class PlannedSettings(SettingsEntry):
    """The settings for a plan of a file: starting and stopping costs nothing."""

    resize_interval: Amount = 0


class Scenario(Wire):
    nodes: list[NodeEntry] = Field(default_factory=list)
    node_pools: list[NodePoolEntry] = Field(default_factory=list)
    topology: list[Text] = Field(default_factory=list)
    projects: list[ProjectEntry] = Field(default_factory=list)
    users: list[UserEntry] = Field(default_factory=list)
    default_build_quota: Amount = 1
    jobs: list[JobEntry] = Field(default_factory=list)
    settings: PlannedSettings = PlannedSettings()
