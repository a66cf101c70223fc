"""The workers of all attempts: has the engine launch and stop them, and tracks the status of each.

What must hold: the status of a worker is kept until its job has ended that attempt, so that it can be evaluated again.
While an attempt is being launched, the status of its workers is not evaluated: the launch may still fail as a whole.
Evaluating an attempt takes time proportional to its size. So the reports of a large gang that come together are
evaluated together.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace

from scheduler.controller.lifecycle import AskToSave, Instruction, LaunchAttempt, StopAttempt
from scheduler.engines import base
from scheduler.engines.base import Engine, Traits, WorkerState, WorkerStatus, addressed
from scheduler.errors import RunaiError, Unavailable, printable
from scheduler.model import Fault, Job, JobId, Node, NodeName, Shape, WorkerPlacement

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds until a failed stop is retried."""

EACH = 5e-5
"""Seconds per worker for which reports of an attempt's other workers are awaited."""

FAREWELL = 5.0
"""Seconds in which launches must finish when the scheduler stops."""

Attempt = tuple[JobId, int]
"""A job and the number of its attempt."""

Credentials = Callable[[JobId, int], Mapping[str, str]]
"""The environment variables with which an attempt reaches the service; none where it cannot."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an engine has not accepted an attempt."""

    sentence: str
    fault: Fault


class WorkerTracker:
    """`changed(job id, attempt)` is called when the status of an attempt's workers has changed. `credentials` are the
    environment variables of an attempt that may submit."""

    def __init__(
        self, engine: Engine, traits: Traits, changed: Callable[[JobId, int], None], credentials: Credentials
    ) -> None:
        self._engine = engine
        self._traits = traits
        self._changed = changed
        self._credentials = credentials
        self._workers: dict[Attempt, dict[int, WorkerStatus]] = {}
        self._refusals: dict[Attempt, Refusal] = {}
        self._launching: set[Attempt] = set()
        self._reported: dict[Attempt, asyncio.TimerHandle] = {}
        self._recovering = True
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, jobs: Iterable[Job]) -> frozenset[Attempt]:
        """Find the running workers of these jobs; returns the attempts that were never launched."""
        attempts = [(job.id, job.attempts[-1].number, len(job.placement)) for job in jobs]
        await self._engine.open(self._report)
        never = await self._engine.recover(attempts)
        self._recovering = False
        return never

    @property
    def busy(self) -> bool:
        """Whether a call to the engine is under way, or a report is not evaluated yet."""
        return bool(self._tasks or self._reported)

    async def idle(self) -> None:
        """Wait until all calls to the engine are done, and all reports are evaluated."""
        while self._tasks or self._reported:
            for attempt in list(self._reported):
                self._evaluate(attempt)
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Finish launches, then stop; the workers keep running."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FAREWELL)
        await self.abort()

    async def abort(self) -> None:
        """Stop at once; the workers keep running."""
        for timer in self._reported.values():
            timer.cancel()
        self._reported.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._engine.close()

    def standing(self, job: Job) -> Mapping[int, WorkerStatus]:
        """The status of the workers of a job's latest attempt, by rank; empty while they are being launched."""
        attempt = (job.id, len(job.attempts))
        return {} if attempt in self._launching else self._workers.get(attempt, {})

    def refusal(self, job: Job) -> Refusal | None:
        """Why the engine has not accepted a job's latest attempt; none of its workers run."""
        return self._refusals.get((job.id, len(job.attempts)))

    def dismiss(self, job: JobId, attempt: int) -> None:
        """Forget the workers of an attempt that has ended."""
        self._workers.pop((job, attempt), None)
        self._refusals.pop((job, attempt), None)

    def do(self, instruction: Instruction, job: Job, nodes: Mapping[NodeName, Node]) -> None:
        match instruction:
            case LaunchAttempt(job_id, attempt):
                self._launching.add((job_id, attempt))
                self._run(self._launch(job, nodes))
            case StopAttempt(job_id, attempt, grace):
                self._run(self._stop(job_id, attempt, grace))
            case AskToSave(job_id, attempt, until):
                self._run(self._ask_to_save(job_id, attempt, until))

    def lose(self, job: Job, nodes: frozenset[NodeName], now: float) -> None:
        """These nodes are gone: their workers are lost."""
        attempt = job.attempts[-1].number
        for rank, worker in enumerate(job.placement):
            if worker.node in nodes:
                reason = f"node {worker.node} is gone"
                gone = WorkerStatus(job.id, attempt, rank, WorkerState.LOST, now, reason=reason, fault=Fault.PLACE)
                self._note(gone)
        self._changed(job.id, attempt)

    # -- reports of the engine ----------------------------------------------------------------------------

    def _report(self, status: WorkerStatus) -> None:
        status = replace(status, reason=printable(status.reason), error_excerpt=printable(status.error_excerpt))
        attempt = (status.job, status.attempt)
        if self._note(status) and not self._recovering and attempt not in self._launching:
            if len(self._workers[attempt]) == 1:
                self._changed(*attempt)
            elif attempt not in self._reported:
                delay = EACH * len(self._workers[attempt])
                self._reported[attempt] = asyncio.get_running_loop().call_later(delay, self._evaluate, attempt)

    def _evaluate(self, attempt: Attempt) -> None:
        self._reported.pop(attempt).cancel()
        self._changed(*attempt)

    def _note(self, status: WorkerStatus) -> bool:
        workers = self._workers.setdefault((status.job, status.attempt), {})
        known = workers.get(status.rank)
        if known is not None and (known.state.over or _same(known, status)):
            return False
        if known is not None and known.state.begun and not status.state.begun:
            return False  # a late report
        workers[status.rank] = status
        return True

    # -- calls to the engine -------------------------------------------------------------------------

    async def _launch(self, job: Job, nodes: Mapping[NodeName, Node]) -> None:
        attempt = (job.id, len(job.attempts))
        try:
            await self._engine.launch(_order(job, nodes, self._traits, self._credentials))
        except RunaiError as error:
            fault = Fault.ENGINE if isinstance(error, Unavailable) else Fault.JOB
            self._refusals[attempt] = Refusal(error.sentence, fault)
        except Exception as error:
            log.exception("Attempt %d of job %s could not be launched.", attempt[1], job.id)
            self._refusals[attempt] = Refusal(f"The job could not be started: {error!r}.", Fault.ENGINE)
        if any(worker.state is WorkerState.LOST for worker in self._workers.get(attempt, {}).values()):
            # A node has gone meanwhile. Workers that were started anyway must not run at the same time as the next
            # attempt.
            await self._stop(*attempt, 0)
        self._launching.discard(attempt)
        self._changed(*attempt)

    async def _stop(self, job: JobId, attempt: int, grace: float) -> None:
        while True:
            try:
                return await self._engine.stop(job, attempt, grace)
            except Exception:
                log.exception("Attempt %d of job %s could not be stopped; trying again.", attempt, job)
                await asyncio.sleep(AGAIN)

    async def _ask_to_save(self, job: JobId, attempt: int, until: float) -> None:
        try:
            await self._engine.ask_to_save(job, attempt, until)
        except Exception:  # it is asked once more when it is stopped
            log.exception("Attempt %d of job %s could not be asked to save its state.", attempt, job)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _same(known: WorkerStatus, status: WorkerStatus) -> bool:
    return (known.state, known.reason) == (status.state, status.reason)


def _order(job: Job, nodes: Mapping[NodeName, Node], traits: Traits, credentials: Credentials) -> base.Launch:
    attempt = job.attempts[-1]
    missing = [worker.node for worker in attempt.placement if worker.node not in nodes]
    if missing:
        raise Unavailable(f"Node {missing[0]} is gone.")
    there = {worker.node: nodes[worker.node] for worker in attempt.placement}
    launch = launch_of(job, attempt.number, addressed(attempt.placement, traits), there)
    own = credentials(job.id, attempt.number) if job.program.may_submit else {}
    return replace(launch, env={**launch.env, **own})


def launch_of(
    job: Job, attempt: int, workers: tuple[WorkerPlacement, ...], nodes: Mapping[NodeName, Node]
) -> base.Launch:
    """What an engine needs to know of an attempt with these workers on these nodes."""
    return base.Launch(
        job=job.id,
        attempt=attempt,
        program=job.program,
        workers=workers,
        nodes=nodes,
        env={"RUNAI_JOB_NAME": job.name, "RUNAI_PROJECT": job.request.project, **_own(job)},
        user=job.user,
        groups=job.request.groups,
        shapes=_shapes(job, len(workers)),
    )


def _shapes(job: Job, size: int) -> tuple[Shape, ...]:
    """The shape of each of `size` workers: an elastic job may have fewer workers than it wants."""
    shapes = job.request.shapes
    return (*shapes[:size], *(job.request.shape,) * (size - len(shapes)))


def _own(job: Job) -> dict[str, str]:
    """The environment variables that tell a job from the others of its array."""
    own: dict[str, str] = {}
    if job.request.array is not None:
        own["RUNAI_ARRAY_INDEX"] = str(job.request.array.index)
        own["RUNAI_ARRAY_SIZE"] = str(job.request.array.size)
    if job.program.parameters:
        own["RUNAI_PARAMETERS"] = json.dumps(job.program.parameters)
    return own
