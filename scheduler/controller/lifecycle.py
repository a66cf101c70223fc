"""The life cycle of a job: the input is the job and an event; the output is the changed job and instructions.

Pure: no clock, no store, no engine. Each function handles one event and returns a `Step`. The controller first makes
the job durable and then carries out the step. What must hold:
- an event that is repeated changes nothing, so that a restart may simply repeat all of them;
- a job holds GPUs exactly until the last of its workers has ended;
- a gang ends as a whole: when one worker fails, or its leaders have succeeded, the others are stopped;
- every state has a reason that a person understands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.controller.retries import is_tried_again, why_again
from scheduler.controller.sentences import blame, clause, starting, where
from scheduler.engines.base import WorkerState, WorkerStatus
from scheduler.errors import Conflict
from scheduler.model import Attempt, Avoided, Ending, Fault, GpuType, Job, JobId, JobState, WorkerPlacement, duration

AVOIDED = 600.0
"""Seconds for which a job stays away from a node that could not run it."""

CANCELLING, CANCELLED = "Cancelling", "Cancelled"
PAUSING, PAUSED = "Pausing", "Paused"


@dataclass(frozen=True, slots=True)
class LaunchAttempt:
    """Launch the workers of the job's latest attempt."""

    job: JobId
    attempt: int


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """Stop the workers of an attempt, with `grace` seconds between SIGTERM and SIGKILL."""

    job: JobId
    attempt: int
    grace: float


@dataclass(frozen=True, slots=True)
class AskToSave:
    """Ask the workers of an attempt to save their state and keep running; they are likely to be stopped `until`."""

    job: JobId
    attempt: int
    until: float


Instruction = LaunchAttempt | StopAttempt | AskToSave


@dataclass(frozen=True, slots=True)
class Step:
    """The changed job, and the instructions to carry out once it is durable."""

    job: Job
    do: tuple[Instruction, ...] = ()


# -- what the plan decides --------------------------------------------------------------------------------------


def start(job: Job, placement: tuple[WorkerPlacement, ...], now: float, gpu_type: GpuType | None = None) -> Step:
    """A queued job gets its GPUs; `gpu_type` is set if all are of one type."""
    attempt = Attempt(len(job.attempts) + 1, placement, created=_not_before(job, now), gpu_type=gpu_type)
    started = replace(job, state=JobState.STARTING, reason=f"Starts on {where(placement)}.", nomination=())
    return Step(started.with_attempt(attempt), (LaunchAttempt(job.id, attempt.number),))


def preempt(job: Job, reason: str, now: float) -> Step:
    """Its GPUs are reclaimed; it is queued again once its attempt has ended."""
    if job.state not in (JobState.STARTING, JobState.RUNNING):
        return Step(job)
    return _stop(job, Ending.PREEMPTED, reason or "Its GPUs are needed by another job.", now)


def resize(job: Job, nomination: tuple[WorkerPlacement, ...], why: str, now: float) -> Step:
    """Change its number of workers: its attempt ends, and the next one starts at once with the placement
    `nomination`."""
    before, after = len(job.placement), len(nomination)
    if after > before:
        reason = f"Grew from {before} to {after} workers: {why}"
    else:
        reason = f"Released {before - after} of {before} workers: {clause(why)}"
    return _restart(job, nomination, Ending.RESIZED, reason, f"with {after} workers instead of {before}", now)


def move(job: Job, nomination: tuple[WorkerPlacement, ...], why: str, now: float) -> Step:
    """Move it: its attempt ends, and the next one starts at once with the placement `nomination`."""
    reason = f"Moved to {where(nomination)}: {clause(why)}"
    return _restart(job, nomination, Ending.MOVED, reason, f"on {where(nomination)}", now)


def _restart(
    job: Job, nomination: tuple[WorkerPlacement, ...], ending: Ending, reason: str, how: str, now: float
) -> Step:
    if job.state not in (JobState.STARTING, JobState.RUNNING):
        return Step(job)
    step = _stop(replace(job, nomination=nomination), ending, reason, now)
    return replace(step, job=replace(step.job, reason=f"Saving its state; it will resume {how}."))


def promise(job: Job, nomination: tuple[WorkerPlacement, ...]) -> Job:
    """A queued job gets a placement for once others have left it."""
    return replace(job, nomination=nomination) if job.state is JobState.QUEUED else job


def drop_nomination(job: Job) -> Step:
    """Its nominated placement is no longer available: it waits like any other job."""
    goes_on = job.attempts and job.attempts[-1].ending in (Ending.RESIZED, Ending.MOVED)
    reason = "Its reserved GPUs are no longer available. Waiting for its turn." if goes_on else job.reason
    return Step(replace(job, nomination=(), reason=reason))


# -- what its owner requests ----------------------------------------------------------------------------------------


def cancel(job: Job, now: float, by: str | None = None) -> Step:
    """Cancel it; `by` is set if that is not its owner. Raises `Conflict` where it has ended by itself."""
    if job.state is JobState.CANCELLED or job.wanted is JobState.CANCELLED:
        return Step(job)
    if job.state.final:
        raise Conflict(f"Job {job.id} has {job.state.value} already and cannot be cancelled.")
    job = replace(job, wanted=JobState.CANCELLED, nomination=())
    if not job.state.holds_gpus:
        return Step(_over(job, JobState.CANCELLED, f"Cancelled{_by(by)}.", now))
    return _stop(job, Ending.STOPPED, f"{CANCELLING}{_by(by)}.", now)


def pause(job: Job, now: float, by: str | None = None) -> Step:
    """Release its GPUs until it is resumed; `by` is set if that is not its owner.

    Raises `Conflict` where it has ended or is being cancelled.
    """
    if job.state is JobState.PAUSED or job.wanted is JobState.PAUSED:
        return Step(job)
    _refuse_ended(job, "paused")
    job = replace(job, wanted=JobState.PAUSED, nomination=())
    if not job.state.holds_gpus:
        return Step(replace(job, state=JobState.PAUSED, reason=_paused(f"{PAUSED}{_by(by)}.")))
    return _stop(job, Ending.STOPPED, f"{PAUSING}{_by(by)}.", now)


def resume(job: Job, now: float, by: str | None = None) -> Step:
    """Queue a paused job again, behind the jobs that are waiting. A job that is not paused does not change."""
    _refuse_ended(job, "resumed")
    if job.wanted is not JobState.PAUSED:
        return Step(job)
    job = replace(job, wanted=None, queued=now)
    if job.state is JobState.PAUSED:
        return Step(replace(job, state=JobState.QUEUED, reason=f"Resumed{_by(by)}; waiting for its turn."))
    return Step(replace(job, reason=f"Resumed{_by(by)}; it will be queued again when its workers have ended."))


def set_priority(job: Job, now: float, priority: int) -> Step:
    """Change its priority within its project. Raises `Conflict` where it has ended."""
    if job.state.final:
        raise Conflict(f"Job {job.id} has {AS_ENDED[job.state]}; its priority cannot be changed.")
    return Step(replace(job, request=replace(job.request, priority=priority)))


def _by(who: str | None) -> str:
    return f" by {who}" if who else ""


def _done(reason: str, doing: str, done: str) -> str:
    """The reason after a requested stop, with the person who requested it where that is known."""
    return done + reason.removeprefix(doing) if reason.startswith(doing) else f"{done}."


def _paused(sentence: str) -> str:
    return f"{sentence.removesuffix('.')}; resume it to queue it again."


def _refuse_ended(job: Job, verb: str) -> None:
    if job.state.final:
        raise Conflict(f"Job {job.id} has {AS_ENDED[job.state]} and cannot be {verb}; submit it again.")
    if job.wanted is JobState.CANCELLED:
        raise Conflict(f"Job {job.id} is being cancelled and cannot be {verb}; submit it again.")


AS_ENDED = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "been cancelled",
}


def never_starts(job: Job, cause: Job, now: float) -> Job:
    """It depends on the success of a job that has not succeeded."""
    # Whoever may see a job may see the other jobs of its project.
    which = cause.name if cause.request.project == job.request.project else cause.id
    how = AS_ENDED[cause.state]
    return _over(
        job,
        JobState.CANCELLED,
        f"Job {which} has {how}, and this job requires it to succeed.",
        now,
    )


# -- what its workers do ----------------------------------------------------------------------------------------


def observe(job: Job, workers: Mapping[int, WorkerStatus], now: float) -> Step:
    """The status of the workers of its latest attempt, by rank (absent: not known yet)."""
    attempt = job.attempt
    if attempt is None or not job.state.holds_gpus:
        return Step(job)
    world = len(attempt.placement)
    codes = tuple(workers[rank].exit_code if rank in workers else None for rank in range(world))
    attempt = replace(attempt, exit_codes=codes if any(w.state.over for w in workers.values()) else ())
    fault, led = _first_fault(workers), _led(job, workers)
    if job.state is JobState.STARTING and (fault is None or fault.fault is None):
        if len(workers) == world and all(worker.state.begun for worker in workers.values()):
            started = max((w.at for w in workers.values()), default=now)
            attempt = replace(attempt, started=_not_before(job, started))
            job = replace(job, state=JobState.RUNNING, reason=f"Runs on {where(attempt.placement)}.")
        else:
            job = replace(job, reason=starting(attempt.placement, workers))
    if led is not None and attempt.ending is None and (fault is None or led <= fault.at):
        attempt = replace(attempt, ending=Ending.SUCCEEDED, reason="Succeeded.")
    elif fault is not None and attempt.ending is None:
        attempt = replace(
            attempt,
            ending=_ending(fault),
            reason=blame(fault, world),
            error_excerpt=fault.error_excerpt,
            fault=fault.fault,
        )
    job = _avoid(job.with_attempt(attempt), workers, now)
    if len(workers) == world and all(worker.state.over for worker in workers.values()):
        return Step(_ended(job, workers, now))
    if attempt.ending is not None and attempt.stopping is None:
        return _stop(job, attempt.ending, attempt.reason, now)
    return Step(job)


def _led(job: Job, workers: Mapping[int, WorkerStatus]) -> float | None:
    """When the last leader has succeeded; all workers must have started."""
    leaders = job.request.leaders if len(workers) == len(job.placement) else ()
    if not leaders or any(workers[rank].exit_code != 0 for rank in leaders):
        return None
    return max(workers[rank].at for rank in leaders)


def refused(job: Job, sentence: str, now: float, fault: Fault) -> Step:
    """The engine has not accepted it, and none of its workers run."""
    attempt = job.attempt
    if attempt is None or not job.state.holds_gpus:
        return Step(job)
    if attempt.ending is None:
        ending = Ending.FAILED if fault is Fault.JOB else Ending.LOST
        attempt = replace(attempt, ending=ending, reason=sentence, fault=fault)
    return Step(_ended(job.with_attempt(attempt), {}, now))


def never_launched(job: Job, now: float) -> Step:
    """After a restart: its attempt was never launched. It is launched now, unless it was being stopped."""
    attempt = job.attempt
    if attempt is None or not job.state.holds_gpus:
        return Step(job)
    if job.state is JobState.STARTING:
        return Step(job, (LaunchAttempt(job.id, attempt.number),))
    if attempt.ending is None:
        attempt = replace(attempt, ending=Ending.LOST, reason="It is unknown what happened to its workers.")
    return Step(_ended(job.with_attempt(attempt), {}, now))


def forgive(job: Job, now: float) -> Step:
    """It may use the nodes again that it has avoided for long enough."""
    return Step(replace(job, avoids=tuple(avoided for avoided in job.avoids if avoided.until > now)))


def overran(job: Job, now: float) -> Step:
    """It has reached its maximum run time."""
    limit = job.program.max_runtime
    if job.state is not JobState.RUNNING or limit is None:
        return Step(job)
    return _stop(job, Ending.OVERRAN, f"Exceeded its maximum run time of {duration(limit)}.", now)


def idled(job: Job, now: float) -> Step:
    """Its GPUs have been idle for longer than its owner allows."""
    timeout = job.program.idle_timeout
    if job.state is not JobState.RUNNING or timeout is None:
        return Step(job)
    return _stop(job, Ending.IDLE, f"Its GPUs were idle for {duration(timeout)}.", now)


def exceeded(job: Job, reason: str, now: float) -> Step:
    """It has used more GPU memory than it was given."""
    return _stop(job, Ending.FAILED, reason, now) if job.state is JobState.RUNNING else Step(job)


# -- ends -------------------------------------------------------------------------------------------------------


def _stop(job: Job, ending: Ending, reason: str, now: float) -> Step:
    """Stop the workers. The first decision on how the attempt ends is kept; the newest reason is shown."""
    attempt = job.attempt
    if attempt is None or attempt.stopping is not None:
        return Step(replace(job, reason=reason))
    stopping = replace(attempt, stopping=now, ending=attempt.ending or ending, reason=attempt.reason or reason)
    job = replace(job, state=JobState.STOPPING, reason=reason).with_attempt(stopping)
    return Step(job, (StopAttempt(job.id, attempt.number, job.program.grace),))


def _ended(job: Job, workers: Mapping[int, WorkerStatus], now: float) -> Job:
    """The job after its last worker has ended."""
    attempt = job.attempts[-1]
    if _succeeded(attempt, workers):
        attempt = replace(attempt, ending=Ending.SUCCEEDED, reason="Succeeded.")
    for doing, done in ((CANCELLING, CANCELLED), (PAUSING, PAUSED)):
        if attempt.reason.startswith(doing):
            attempt = replace(attempt, reason=_done(attempt.reason, doing, done))
    throughput = next((w.throughput for _, w in sorted(workers.items()) if w.throughput is not None), None)
    ended = max((w.at for w in workers.values()), default=now)
    attempt = replace(attempt, ended=_not_before(job, ended), throughput=throughput)
    job = job.with_attempt(attempt)
    if attempt.ending is Ending.SUCCEEDED:
        return _over(job, JobState.SUCCEEDED, attempt.reason, now)
    if job.wanted is JobState.CANCELLED:
        return _over(job, JobState.CANCELLED, _done(job.reason, CANCELLING, CANCELLED), now)
    if not is_tried_again(job):
        return _over(job, JobState.FAILED, attempt.reason, now)
    if job.wanted is JobState.PAUSED:
        return replace(job, state=JobState.PAUSED, reason=_paused(_done(job.reason, PAUSING, PAUSED)))
    return replace(job, state=JobState.QUEUED, reason=why_again(job))


def _succeeded(attempt: Attempt, workers: Mapping[int, WorkerStatus]) -> bool:
    """Whether every rank succeeded without being stopped: a stopped worker may exit with 0 and have work left."""
    return len(workers) == len(attempt.placement) and all(
        worker.exit_code == 0 and not _was_stopped(attempt, worker) for worker in workers.values()
    )


def _was_stopped(attempt: Attempt, worker: WorkerStatus) -> bool:
    """Whether it ended because it was stopped. Times alone do not show that, as the clock may have been set back."""
    if attempt.stopping is None:
        return False
    return worker.at >= attempt.stopping if worker.stopped is None else worker.stopped


def _over(job: Job, state: JobState, reason: str, now: float) -> Job:
    return replace(job, state=state, reason=reason, ended=_not_before(job, now), nomination=())


def _not_before(job: Job, at: float) -> float:
    """An instant, but not before the job's latest event: the clock may have been set back."""
    attempt = job.attempt
    known = () if attempt is None else (attempt.created, attempt.started, attempt.ended)
    return max(at, job.submitted, *(instant for instant in known if instant is not None))


# -- workers ----------------------------------------------------------------------------------------------------


def _first_fault(workers: Mapping[int, WorkerStatus]) -> WorkerStatus | None:
    faults = [worker for worker in workers.values() if worker.state.over and worker.exit_code != 0]
    return min(faults, key=lambda worker: (worker.at, worker.rank), default=None)


def _ending(worker: WorkerStatus) -> Ending:
    """The ending of an attempt that ends because of this worker."""
    match worker.fault:
        case Fault.JOB:
            return Ending.FAILED
        case Fault.PLACE | Fault.ENGINE:
            return Ending.LOST
        case Fault.OTHERS:
            return Ending.PREEMPTED
        case None:
            unknown = worker.state is WorkerState.LOST or worker.exit_code is None
            return Ending.LOST if unknown else Ending.FAILED


def _avoid(job: Job, workers: Mapping[int, WorkerStatus], now: float) -> Job:
    """The next attempt avoids the nodes that could not run this one."""
    placement = job.attempts[-1].placement
    bad = {placement[rank].node for rank, worker in workers.items() if worker.fault is Fault.PLACE}
    new = sorted(bad - {avoided.node for avoided in job.avoids})
    return replace(job, avoids=(*job.avoids, *(Avoided(node, now + AVOIDED) for node in new)))
