"""The GPUs of a node as they are measured, now and over time."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scheduler.model import Isolation
from scheduler.schema.wire import Wire


class GpuProcessView(Wire):
    """A process that uses a GPU. Only administrators, and those who may see its job or session, see which one it is."""

    pid: int | None
    memory_gib: float | None
    kind: Literal["job", "session"] | None = Field(description="null: it belongs to no job and no session on this GPU")
    id: str | None
    user: str | None


class GpuMeasures(Wire):
    """What a GPU reports; null where it does not."""

    index: int
    failure: str | None = Field(None, description="why the GPU fails and gets no work; null: it works")
    utilisation: float | None = Field(None, description="0 to 1")
    memory_gib: float | None = None
    used_memory_gib: float | None = None
    power_watts: float | None = None
    temperature: int | None = Field(None, description="in °C")
    throttle_reasons: list[str] = Field(description="why its clocks are below their maximum")
    corrected_errors: int | None = Field(None, description="memory errors (ECC) since the last reset of the GPU")
    uncorrected_errors: int | None = None
    processes: list[GpuProcessView]


class NodeGpus(Wire):
    """The GPUs of a node, as they were a few seconds ago."""

    node: str
    measured: bool = Field(description="false if the use of these GPUs is not measured, as of declared ones")
    declared: bool = Field(False, description="the figures are those that the pool file declares: nothing is measured")
    isolation: Isolation = Field(
        Isolation.UNKNOWN, description="what stands between workloads that have parts of one GPU"
    )
    gpus: list[GpuMeasures]


class GpuPoint(Wire):
    """The use of a GPU in one span of the history; null where it was not measured."""

    start: float = Field(description="seconds since 1970")
    utilisation: float | None = Field(description="the mean, 0 to 1")
    most_utilisation: float | None
    used_memory_gib: float | None
    power_watts: float | None
    temperature: float | None = Field(description="the mean, in °C")
    most_temperature: float | None
    slowed: float | None = Field(description="the part of the time in which heat or power slowed the GPU, 0 to 1")
    throttle_reasons: list[str]
    corrected_errors: int
    uncorrected_errors: int
    xid: int | None = Field(description="an error (Xid) that the driver reported")


class GpuHistory(Wire):
    """The use of a GPU over time, oldest first. Spans in which nothing was measured are left out."""

    node: str
    gpu: int
    measured: bool = Field(description="false if the use of this GPU is not measured, as of a declared one")
    declared: bool = Field(False, description="the figures are those that the pool file declares: nothing is measured")
    since: float
    until: float
    step: int = Field(description="the length of each span, in seconds")
    points: list[GpuPoint]


class WorkerGpuUse(Wire):
    """A GPU that a worker of a job holds or held. Spans in which it was not measured are left out."""

    rank: int
    node: str
    gpu: int
    points: list[GpuPoint]


class JobGpuUse(Wire):
    """The use of the GPUs of an attempt from its start to its end, or until now: the first 64 of those that it held, in
    the order of ranks. `attempt` is 0 where it has not started."""

    attempt: int
    since: float
    until: float
    step: int = Field(description="the length of each span, in seconds; 0: no GPU was measured")
    held: int = Field(description="the number of GPUs")
    declared: bool = Field(False, description="the figures are those that the pool file declares: nothing is measured")
    shared: bool = Field(False, description="it held a part of a GPU: the figures are those of the whole GPU")
    gpus: list[WorkerGpuUse]
