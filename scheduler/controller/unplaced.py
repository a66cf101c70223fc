"""The next attempt of a queued job, as what adds nodes or another scheduler needs to know it. Pure."""

from __future__ import annotations

from scheduler.controller.workertracker import launch_of
from scheduler.engines.base import UnplacedAttempt
from scheduler.model import ONE, Environment, Job, NodeName, Pool, WorkerPlacement

UNPLACED = NodeName("")


def next_attempt(job: Job) -> int:
    """The number of the attempt that a queued job waits for."""
    return len(job.attempts) + 1


def unplaced(job: Job) -> tuple[WorkerPlacement, ...]:
    """The workers of the next attempt: the smallest gang, since nothing would shrink it for others."""
    shapes = job.request.shapes[: job.request.min_workers]
    return tuple(WorkerPlacement(UNPLACED, tuple(range(shape.gpus // ONE))) for shape in shapes)


def unplaced_attempt(job: Job, pool: Pool) -> UnplacedAttempt:
    """The next attempt of a queued job, and where it may run."""
    request = job.request
    training = tuple(each.name for each in pool.node_pools if each.environment is Environment.TRAIN)
    return UnplacedAttempt(
        launch_of(job, next_attempt(job), unplaced(job), {}),
        node_pools=training if request.node_pools is None else request.node_pools,
        gpu_types=request.gpu_types,
        require=request.require,
        avoids=tuple(avoided.node for avoided in job.avoids),
    )
