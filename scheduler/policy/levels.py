"""Service levels: how much of the pool a job has been served over all its attempts, in exponentially spaced steps."""

from __future__ import annotations

from bisect import bisect_right

from scheduler.model import ONE, Milli, Settings, Workload, held_by

HOUR = 3600.0
RESTART = 60.0
"""What a stop costs a job besides the work since its last checkpoint, in seconds."""


class ServiceLevels:
    """The thresholds, in GPU-seconds, and after what multiple of its run time a waiting job is on the lowest level."""

    def __init__(self, settings: Settings) -> None:
        self.thresholds = tuple(sorted(hours * HOUR for hours in settings.service_levels))
        self.patience = settings.patience

    def of(self, served: float) -> int:
        return bisect_right(self.thresholds, served)

    def when_running(self, workload: Workload, now: float) -> tuple[int, float | None]:
        """The level of a running job, and when it reaches the next one (`None`: never)."""
        served, gpus = workload.served_until(now), held_by(workload.placement) / ONE
        level = self.of(served)
        if level == len(self.thresholds) or not gpus:
            return level, None
        return level, now + (self.thresholds[level] - served) / gpus

    def when_waiting(self, workload: Workload, amount: Milli) -> tuple[int, float]:
        """The level of a waiting job that asks for `amount`, and from when on it is on the lowest one."""
        level = self.of(workload.served)
        ran = workload.served * ONE / max(1, amount)
        return level, workload.submitted + (1 + self.patience) * ran

    def when_stopped(self, workload: Workload, now: float) -> int:
        """The level on which a running job stands among possible victims: the lowest, where a stop loses as much as
        it was served."""
        if workload.checkpointed is None:
            return 0
        served, gpus = workload.served_until(now), held_by(workload.placement) / ONE
        lost = (max(0.0, now - workload.checkpointed) + RESTART) * gpus
        return self.of(served) if lost < served else 0
