"""What one GPU reports at one instant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

from scheduler.model import JobId, MiB, SessionId


class Throttle(IntFlag):
    """Why a GPU's clocks are below their maximum, in NVML's bits (`nvmlClocksEventReasons`)."""

    IDLE = 0x1
    APPLICATION_CLOCKS = 0x2
    POWER_CAP = 0x4
    HARDWARE_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    THERMAL = 0x20
    HARDWARE_THERMAL = 0x40
    POWER_BRAKE = 0x80
    DISPLAY_CLOCKS = 0x100


SLOWING = (
    Throttle.POWER_CAP
    | Throttle.HARDWARE_SLOWDOWN
    | Throttle.THERMAL
    | Throttle.HARDWARE_THERMAL
    | Throttle.POWER_BRAKE
)
"""The reasons that slow work down. The others are settings, or say that there is no work."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that uses a GPU, and whose it says that it is: `job_id` of a worker, or `user` and `server` of a
    notebook server. Who trusts that must check it, because users can set their environment. On a cluster, `pod` is the
    UID of its pod, which says reliably whose it is: `job_id` of a worker, or `session`.

    `started` tells it from a later process with the same number, and `uid` is the system user that it runs as.
    """

    pid: int
    memory: MiB | None = None
    job_id: JobId | None = None
    user: str | None = None
    server: str | None = None
    pod: str | None = None
    session: SessionId | None = None
    started: int | None = None
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """Values that a GPU does not report are `None`.

    `utilisation` is from 0 to 1, `power` in watts, `temperature` in °C. `corrected` and `uncorrected` are the memory
    errors (ECC) since the last reset of the GPU. `xids` are the errors that the driver has reported since the sample
    before. `reset_required` says that the driver asks for a reset or a reboot.
    """

    utilisation: float | None = None
    used: MiB | None = None
    memory: MiB | None = None
    power: float | None = None
    temperature: int | None = None
    throttle: Throttle | None = None
    corrected: int | None = None
    uncorrected: int | None = None
    xids: tuple[int, ...] = ()
    reset_required: bool = False
    processes: tuple[GpuProcess, ...] = ()
