"""Jobs that another scheduler of the cluster places: the controller hands them over instead of planning them.

What must hold:
- The policy does not see a waiting job that is handed over: its quotas and places in line are the other scheduler's.
- A job that may not start (it is paused, cancelled, or waits for others) is not handed over, also after a restart.
- An attempt begins when all its workers have their nodes, and its GPUs are free in the book.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping

from scheduler.controller.book import Book, Holdings
from scheduler.controller.statewriter import StateWriter
from scheduler.controller.workertracker import launch_of
from scheduler.engines.base import Engine, HandedOver, PlacementStatus, Traits
from scheduler.errors import RunaiError
from scheduler.model import (
    ONE,
    AttemptKey,
    Environment,
    Job,
    JobId,
    JobState,
    NodeName,
    Pool,
    WorkerPlacement,
    WorkloadId,
)
from scheduler.policy import Action, Decision
from scheduler.policy.blocking import PlacedByOthers

log = logging.getLogger(__name__)

UNPLACED = NodeName("")


class HandOver:
    """Keeps what is handed over in step with the jobs that may start. `wake` is called when that may allow a start."""

    def __init__(self, engine: Engine, traits: Traits, writer: StateWriter, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._writer = writer
        self._placed_by = traits.placed_by
        self._wake = wake
        self._handed_over: dict[WorkloadId, int] = {}
        """The attempt of each job that is, or before a restart was, handed over."""
        self._status: dict[WorkloadId, PlacementStatus] = {}
        self._asked: set[WorkloadId] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, jobs: Iterable[Job]) -> None:
        """Continue after a restart with these jobs; called before the engine is opened."""
        if self._placed_by:
            self._handed_over = {job.id: _next(job) for job in jobs if job.state is JobState.QUEUED}
            keys = [AttemptKey((JobId(job), attempt)) for job, attempt in self._handed_over.items()]
            self._engine.watch_placements(self._report, keys)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def decisions(self, jobs: Iterable[Job], blocked: Collection[WorkloadId]) -> dict[WorkloadId, Decision]:
        """What the jobs that are handed over wait for; empty where the scheduler places jobs itself."""
        if not self._placed_by:
            return {}
        waiting = (job for job in jobs if job.state is JobState.QUEUED and job.id not in blocked)
        return {job.id: self.decision(job) for job in waiting}

    def decision(self, job: Job) -> Decision:
        status = self._status.get(job.id)
        known = status is not None and status.attempt == _next(job) and status.reason
        reason = known or f"{self._placed_by} decides when it starts."
        return Decision(Action.WAIT, reason, blocked_by=PlacedByOthers(self._placed_by))

    def update(self, held_back: Mapping[WorkloadId, Decision], book: Book) -> None:
        """Hand over the jobs whose `decisions` these are, and take back those that may not start any more."""
        waiting = {id for id, decision in held_back.items() if isinstance(decision.blocked_by, PlacedByOthers)}
        for id, attempt in list(self._handed_over.items()):
            job = book.jobs.get(id)
            started = job is not None and job.state.holds_gpus and len(job.attempts) == attempt
            if started or id not in waiting or job is None or _next(job) != attempt:
                self._forget(id)
                if not started:
                    self._run(self._engine.take_back(JobId(id), attempt))
        for id in waiting:
            if id not in self._asked:
                job = book.jobs[id]
                self._asked.add(id)
                self._handed_over[id] = _next(job)
                self._run(self._send(_order(job, book.pool)))

    def placed(self, book: Book, holdings: Holdings) -> Iterable[tuple[Job, tuple[WorkerPlacement, ...]]]:
        """The jobs whose workers have their nodes, with their GPUs, which are taken from `holdings`."""
        for id, status in list(self._status.items()):
            job = book.jobs.get(id)
            if job is None or job.state is not JobState.QUEUED or not status.nodes or status.attempt != _next(job):
                continue
            gpus = [len(worker.gpus) for worker in _unplaced(job)]
            if placement := holdings.number(list(zip(status.nodes, gpus, strict=True))):
                yield job, placement

    async def _send(self, handed_over: HandedOver) -> None:
        """Hand over a job once it is durable that it waits."""
        job, attempt = handed_over.launch.job, handed_over.launch.attempt
        try:
            await self._writer.durable()
        except RunaiError:
            self._asked.discard(job)  # it is planned again
        else:
            if self._handed_over.get(job) == attempt:
                await self._engine.hand_over(handed_over)

    def _report(self, status: PlacementStatus) -> None:
        if self._handed_over.get(status.job) == status.attempt and self._status.get(status.job) != status:
            self._status[status.job] = status
            self._wake()

    def _forget(self, id: WorkloadId) -> None:
        del self._handed_over[id]
        self._status.pop(id, None)
        self._asked.discard(id)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A job could not be handed over to %s.", self._placed_by, exc_info=error)


def _next(job: Job) -> int:
    """The number of the attempt that a queued job waits for."""
    return len(job.attempts) + 1


def _unplaced(job: Job) -> tuple[WorkerPlacement, ...]:
    """The workers of the next attempt: the smallest gang, since nothing would shrink it for others."""
    shapes = job.request.shapes[: job.request.min_workers]
    return tuple(WorkerPlacement(UNPLACED, tuple(range(shape.gpus // ONE))) for shape in shapes)


def _order(job: Job, pool: Pool) -> HandedOver:
    request = job.request
    training = tuple(each.name for each in pool.node_pools if each.environment is Environment.TRAIN)
    return HandedOver(
        launch_of(job, _next(job), _unplaced(job), {}),
        node_pools=training if request.node_pools is None else request.node_pools,
        gpu_types=request.gpu_types,
        require=request.require,
        avoids=tuple(avoided.node for avoided in job.avoids),
    )
