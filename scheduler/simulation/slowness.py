"""How much slower some GPUs of a simulation are than others of their type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.model import GpuKey, ProjectName, UserName, WorkerPlacement
from scheduler.simulation.trace import TraceJob

Kind = tuple[ProjectName, UserName | None]


def kind_of(job: TraceJob) -> Kind:
    return job.project, job.user


@dataclass(frozen=True, slots=True)
class Slowness:
    """How many times as long work takes on some GPUs: for all jobs, or for those of some kinds only."""

    gpus: Mapping[GpuKey, float]
    kinds: frozenset[Kind] | None = None

    def of(self, job: TraceJob, placement: Iterable[WorkerPlacement]) -> float:
        """How many times as long a job takes there: a gang runs at the pace of its slowest GPU."""
        if self.kinds is not None and kind_of(job) not in self.kinds:
            return 1.0
        used = [GpuKey((worker.node, gpu)) for worker in placement for gpu in worker.gpus]
        return max([self.gpus.get(gpu, 1.0) for gpu in used], default=1.0)
