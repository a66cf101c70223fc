"""The record of use: how much each consumer held, waited and lost in each period.

`Consumption` is that of one consumer, `PoolUse` that of all. A consumer is a user's jobs in one project on one type of
GPU, or a user's sessions on it. Amounts of different periods and consumers add up.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model.declared import Environment
from scheduler.model.names import GpuType, ProjectName, UserName


@dataclass(frozen=True, slots=True)
class Consumer:
    """`project` is empty for sessions, `gpu_type` where it is not known."""

    environment: Environment
    project: ProjectName
    user: UserName
    gpu_type: GpuType


@dataclass(frozen=True, slots=True)
class Consumption:
    """GPU-seconds `held`, the part of them with `measured` utilisation, and the part of that which was `idle`.

    `starts` counts started attempts, which waited `wait` seconds in total and `longest_wait` at most. `reclaims` are
    attempts whose GPUs were taken back, and `lost` is the GPU-seconds of work that was stopped without being saved.
    """

    held: float = 0.0
    measured: float = 0.0
    idle: float = 0.0
    starts: int = 0
    wait: float = 0.0
    longest_wait: float = 0.0
    reclaims: int = 0
    lost: float = 0.0

    def __add__(self, more: Consumption) -> Consumption:
        return Consumption(
            held=self.held + more.held,
            measured=self.measured + more.measured,
            idle=self.idle + more.idle,
            starts=self.starts + more.starts,
            wait=self.wait + more.wait,
            longest_wait=max(self.longest_wait, more.longest_wait),
            reclaims=self.reclaims + more.reclaims,
            lost=self.lost + more.lost,
        )


NOTHING = Consumption()


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What everybody together held and waited for, as it was sampled for `observed` seconds.

    GPU-seconds `held`, the part of them with `measured` utilisation, and the part of that which was `idle`. `queued` is
    in job-seconds; it is unknown for the time before the queue was recorded. `starts` counts started attempts of jobs,
    which waited `wait` seconds in total and `longest_wait` at most.
    """

    observed: float = 0.0
    held: float = 0.0
    measured: float = 0.0
    idle: float = 0.0
    queued: float | None = 0.0
    starts: int = 0
    wait: float = 0.0
    longest_wait: float = 0.0

    def __add__(self, more: PoolUse) -> PoolUse:
        return PoolUse(
            observed=self.observed + more.observed,
            held=self.held + more.held,
            measured=self.measured + more.measured,
            idle=self.idle + more.idle,
            queued=None if self.queued is None or more.queued is None else self.queued + more.queued,
            starts=self.starts + more.starts,
            wait=self.wait + more.wait,
            longest_wait=max(self.longest_wait, more.longest_wait),
        )
