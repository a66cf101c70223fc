"""Finds running jobs whose GPUs were all idle, in every sample, for as long as their owners allow.

What must hold:
- A GPU that cannot be measured never counts as idle; nor does a shared GPU that another workload keeps busy.
- The idle time of a job is counted per attempt, and starts at zero after a restart of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from scheduler.model import AttemptKey, GpuKey, Job, JobState

if TYPE_CHECKING:
    from scheduler.telemetry import GpuUsage

BUSY = 0.05
"""The utilisation at or above which a GPU is not idle."""

LOOK = 15.0
"""Seconds between two samples."""


class Idleness:
    """The time since which the GPUs of each attempt have been idle."""

    def __init__(self) -> None:
        self._since: dict[AttemptKey, float] = {}

    def look(self, jobs: Iterable[Job], usage: Mapping[GpuKey, GpuUsage], now: float) -> list[Job]:
        """The jobs that have been idle for longer than they may, given the use of GPUs `now` (on a monotonic clock)."""
        idle: dict[AttemptKey, float] = {}
        over = []
        for job in jobs:
            timeout = job.program.idle_timeout
            if timeout is None or job.state is not JobState.RUNNING or not _stands_idle(job, usage):
                continue
            attempt = AttemptKey((job.id, len(job.attempts)))
            since = idle[attempt] = self._since.get(attempt, now)
            if now - since >= timeout:
                over.append(job)
        self._since = idle
        return over


def _stands_idle(job: Job, usage: Mapping[GpuKey, GpuUsage]) -> bool:
    gpus = [usage.get(GpuKey((worker.node, gpu))) for worker in job.placement for gpu in worker.gpus]
    busy = [gpu is None or gpu.utilisation is None or gpu.utilisation >= BUSY for gpu in gpus]
    return bool(gpus) and not any(busy)
