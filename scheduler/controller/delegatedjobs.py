"""Jobs whose placement is delegated: another scheduler of the cluster decides when they start and on which nodes.

What must hold:
- The policy does not see a waiting job that is delegated: its quotas and places in line are the other scheduler's.
- A job that may not start (it is paused, cancelled, or waits for others) is not delegated, also after a restart.
- An attempt begins when all its workers have their nodes, and its GPUs are free in the book.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping

from scheduler.controller.book import Book, Holdings
from scheduler.controller.statewriter import StateWriter
from scheduler.controller.unplaced import next_attempt, unplaced, unplaced_attempt
from scheduler.engines.backend import Delegation
from scheduler.engines.base import PlacementStatus, UnplacedAttempt
from scheduler.errors import RunaiError
from scheduler.model import AttemptKey, Job, JobId, JobState, WorkerPlacement, WorkloadId
from scheduler.policy import Action, Decision
from scheduler.policy.blocking import Delegated

log = logging.getLogger(__name__)


class DelegatedJobs:
    """Keeps what is delegated in step with the jobs that may start; without a `delegation` there are none. `wake` is
    called when that may allow a start."""

    def __init__(self, delegation: Delegation | None, writer: StateWriter, wake: Callable[[], None]) -> None:
        self._delegation = delegation
        self._writer = writer
        self._wake = wake
        self._attempts: dict[WorkloadId, int] = {}
        """The attempt of each job that is, or before a restart was, delegated."""
        self._status: dict[WorkloadId, PlacementStatus] = {}
        self._asked: set[WorkloadId] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, jobs: Iterable[Job]) -> None:
        """Continue after a restart with these jobs; called before the engine is opened."""
        if self._delegation is not None:
            self._attempts = {job.id: next_attempt(job) for job in jobs if job.state is JobState.QUEUED}
            keys = [AttemptKey((JobId(job), attempt)) for job, attempt in self._attempts.items()]
            self._delegation.watch(self._report, keys)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def decisions(self, jobs: Iterable[Job], blocked: Collection[WorkloadId]) -> dict[WorkloadId, Decision]:
        """What the jobs that are delegated wait for."""
        if self._delegation is None:
            return {}
        scheduler = self._delegation.scheduler
        waiting = (job for job in jobs if job.state is JobState.QUEUED and job.id not in blocked)
        return {job.id: self._decision(job, scheduler) for job in waiting}

    def update(self, held_back: Mapping[WorkloadId, Decision], book: Book) -> None:
        """Delegate the jobs whose `decisions` these are, and withdraw those that may not start any more."""
        if self._delegation is None:
            return
        waiting = {id for id, decision in held_back.items() if isinstance(decision.blocked_by, Delegated)}
        for id, attempt in list(self._attempts.items()):
            job = book.jobs.get(id)
            started = job is not None and job.state.holds_gpus and len(job.attempts) == attempt
            if started or id not in waiting or job is None or next_attempt(job) != attempt:
                self._forget(id)
                if not started:
                    self._run(self._delegation.withdraw(JobId(id), attempt))
        for id in waiting:
            if id not in self._asked:
                job = book.jobs[id]
                self._asked.add(id)
                self._attempts[id] = next_attempt(job)
                self._run(self._delegate(self._delegation, unplaced_attempt(job, book.pool)))

    def placed(self, book: Book, holdings: Holdings) -> Iterable[tuple[Job, tuple[WorkerPlacement, ...]]]:
        """The jobs whose workers have their nodes, with their GPUs, which are taken from `holdings`."""
        for id, status in list(self._status.items()):
            job = book.jobs.get(id)
            if job is None or job.state is not JobState.QUEUED or status.attempt != next_attempt(job):
                continue
            if not status.nodes:
                continue
            gpus = [len(worker.gpus) for worker in unplaced(job)]
            if placement := holdings.number(list(zip(status.nodes, gpus, strict=True))):
                yield job, placement

    def _decision(self, job: Job, scheduler: str) -> Decision:
        status = self._status.get(job.id)
        known = status is not None and status.attempt == next_attempt(job) and status.reason
        return Decision(Action.WAIT, known or f"{scheduler} decides when it starts.", blocked_by=Delegated(scheduler))

    async def _delegate(self, delegation: Delegation, wanted: UnplacedAttempt) -> None:
        """Delegate a job once it is durable that it waits."""
        job, attempt = wanted.launch.job, wanted.launch.attempt
        try:
            await self._writer.durable()
        except RunaiError:
            self._asked.discard(job)  # it is planned again
        else:
            if self._attempts.get(job) == attempt:
                await delegation.delegate(wanted)

    def _report(self, status: PlacementStatus) -> None:
        if self._attempts.get(status.job) == status.attempt and self._status.get(status.job) != status:
            self._status[status.job] = status
            self._wake()

    def _forget(self, id: WorkloadId) -> None:
        del self._attempts[id]
        self._status.pop(id, None)
        self._asked.discard(id)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A job could not be delegated or withdrawn.", exc_info=error)
