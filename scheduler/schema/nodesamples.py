"""What the agent of a node reports of its GPUs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from scheduler.schema.wire import Wire

Device = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]

Uid = Annotated[str, StringConstraints(max_length=100)]


class ProcessReading(Wire):
    """A process that uses a GPU; `memory` in MiB, `pod` is the UID of its pod."""

    pid: int = Field(ge=0)
    memory: int | None = Field(None, ge=0)
    pod: Uid | None = None


class GpuReading(Wire):
    """What a GPU reports, as the driver calls it; null where it does not. `memory` in MiB."""

    device: Device
    lost: bool = Field(False, description="it does not respond")
    utilisation: float | None = Field(None, ge=0, le=1)
    used: int | None = Field(None, ge=0)
    memory: int | None = Field(None, ge=0)
    power: float | None = Field(None, ge=0, description="in watts")
    temperature: int | None = Field(None, description="in °C")
    throttle: int | None = Field(None, ge=0, description="why its clocks are below their maximum, in NVML's bits")
    corrected: int | None = Field(None, ge=0, description="memory errors (ECC) since the last reset of the GPU")
    uncorrected: int | None = Field(None, ge=0)
    xids: list[int] = Field(
        [], max_length=1000, description="errors that the driver has reported since the last sample"
    )
    reset_required: bool = False
    processes: list[ProcessReading] = Field([], max_length=32)


class NodeSample(Wire):
    """All GPUs of the node, in the driver's order, `age` seconds ago. A number counts once."""

    number: int = Field(ge=1)
    age: float = Field(ge=0, le=86_400)
    gpus: list[GpuReading] = Field(max_length=64)


class NodeSamples(Wire):
    """Samples of one run of an agent, oldest first."""

    run: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    samples: list[NodeSample] = Field(max_length=12)


class NodeSamplesTaken(Wire):
    """`every`: seconds until the next request."""

    every: float
