"""The policy's options, as an administrator declares them for the whole pool."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.amounts import MiB
from scheduler.model.idlerules import IdleAction, IdleException, IdleRules
from scheduler.model.names import GroupName, UserName


class QueueOrder(StrEnum):
    """Which of a project's jobs of the same priority is next: the oldest one, or that of the user who uses least of the
    project now, and of this user's jobs the one that was served least."""

    ARRIVAL = "arrival"
    SERVED = "served"


class ReclaimUpTo(StrEnum):
    """How far a project may reclaim GPUs from others."""

    GUARANTEE = "guarantee"
    FAIR_SHARE = "fair_share"


class SurplusOrder(StrEnum):
    """How what no guarantee covers is divided among projects: by weight, or to the jobs that were served least
    first."""

    WEIGHT = "weight"
    SERVED = "served"


@dataclass(frozen=True, slots=True)
class DeclaredLoad:
    """What a declared GPU is shown to do while a job holds it: its `use` (0 to 1), its memory (MiB) and how much of it
    is used, its power (watts) and its temperature (°C). For screens only."""

    use: float = 0.8
    memory: MiB = 81_920
    used_memory: MiB = 61_440
    power: float = 300.0
    temperature: float = 65.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The policy's options. Unknown names are refused where settings are read.

    `resize_interval` is the least time that an attempt runs before it is restarted with more workers; 0: a restart
    costs nothing. `usage_half_life` is the half-life of recent use, in seconds; recent use counts if `time_aware` is
    above 0.

    `surplus` says how what no guarantee covers is divided. `order` applies to projects that set none. A job that has
    held more GPU-hours, over all its attempts, than a threshold of `service_levels` is on a higher level. A job that
    has waited `patience` times as long as it ran returns to the lowest level.

    `session_idle_…` are the `IdleRules` for everybody but those that the first exception that concerns them names. A
    notebook server that runs for `session_max_duration` seconds (0: no limit) is stopped, used or not; it is warned one
    grace before. GPUs are lent only with `lending`.
    """

    reclaim: ReclaimUpTo = ReclaimUpTo.FAIR_SHARE
    reservations: int = 1
    preemption_delay: float = 0.0
    time_aware: float = 0.0
    lending: bool = False
    resize_interval: float = 300.0
    usage_half_life: float = 604_800.0
    surplus: SurplusOrder = SurplusOrder.WEIGHT
    order: QueueOrder = QueueOrder.ARRIVAL
    service_levels: tuple[float, ...] = (8.0, 64.0, 512.0)
    patience: float = 8.0
    session_idle_timeout: float = 0.0
    session_idle_grace: float = 600.0
    session_idle_lend: float = 0.0
    session_idle_action: IdleAction = IdleAction.STOP
    session_idle_exceptions: tuple[IdleException, ...] = ()
    session_max_duration: float = 0.0
    declared_load: DeclaredLoad | None = None

    def idle_rules(self, user: UserName, groups: Collection[GroupName]) -> IdleRules:
        """The rules for the idle servers of a user of these groups of JupyterHub."""
        found = (each for each in self.session_idle_exceptions if each.concerns(user, groups))
        own = next(found, IdleException())
        lend = self.session_idle_lend if own.lend is None else own.lend
        return IdleRules(
            timeout=self.session_idle_timeout if own.timeout is None else own.timeout,
            grace=self.session_idle_grace if own.grace is None else own.grace,
            lend=lend if self.lending else 0.0,
            action=own.action or self.session_idle_action,
        )
