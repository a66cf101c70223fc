"""What becomes of a job: the job and what happened to it in, the job as it is now and what must be done out.

Pure: no clock, no store, no engine. Each function is one thing that can happen; each returns a `Step`. The controller
makes the job durable first and then does what the step says. What must hold:
- the same happening twice changes nothing the second time, so that a restart may simply tell everything again;
- a job holds GPUs until the last of its workers has ended, and not a moment longer;
- a gang ends whole: when one worker fails, or those that lead it have ended well, the others are stopped;
- every state has a reason that a person understands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.controller.retries import is_tried_again, why_again
from scheduler.controller.sentences import blame, clause, starting, where
from scheduler.engines.base import WorkerState, WorkerStatus
from scheduler.errors import Conflict
from scheduler.model import Attempt, Avoided, Ending, Fault, Job, JobId, JobState, WorkerPlacement, duration

AVOIDED = 600.0
"""Seconds for which a job stays away from a node that could not run it."""

CANCELLING = "Cancelling"
PAUSING = "Pausing"


@dataclass(frozen=True, slots=True)
class LaunchAttempt:
    """Start the workers of the job's latest attempt."""

    job: JobId
    attempt: int


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """End the workers of an attempt, with `grace` seconds between asking and killing."""

    job: JobId
    attempt: int
    grace: float


Instruction = LaunchAttempt | StopAttempt


@dataclass(frozen=True, slots=True)
class Step:
    """The job as it is now, and what must be done once that is durable."""

    job: Job
    do: tuple[Instruction, ...] = ()


# -- what the plan decides --------------------------------------------------------------------------------------


def start(job: Job, placement: tuple[WorkerPlacement, ...], now: float, gpu_type: str | None = None) -> Step:
    """A queued job gets its GPUs, all of one type where that is said."""
    attempt = Attempt(len(job.attempts) + 1, placement, created=_not_before(job, now), gpu_type=gpu_type)
    started = replace(job, state=JobState.STARTING, reason=f"Starts on {where(placement)}.", nomination=())
    return Step(started.with_attempt(attempt), (LaunchAttempt(job.id, attempt.number),))


def preempt(job: Job, reason: str, now: float) -> Step:
    """Its GPUs are taken back; it is queued again once it has ended."""
    if job.state not in (JobState.STARTING, JobState.RUNNING):
        return Step(job)
    return _stop(job, Ending.PREEMPTED, reason or "Its GPUs are needed by another job.", now)


def resize(job: Job, nomination: tuple[WorkerPlacement, ...], why: str, now: float) -> Step:
    """It is to have more or fewer workers: its attempt ends, and the next one begins at once in the places of
    `nomination`."""
    before, after = len(job.placement), len(nomination)
    if after > before:
        reason = f"Grew from {before} to {after} workers: {why}"
    else:
        reason = f"Gave {before - after} of {before} workers back: {clause(why)}"
    return _restart(job, nomination, Ending.RESIZED, reason, f"with {after} workers instead of {before}", now)


def move(job: Job, nomination: tuple[WorkerPlacement, ...], why: str, now: float) -> Step:
    """It is to stand elsewhere: its attempt ends, and the next one begins at once in the places of `nomination`."""
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
    """A queued job is to start in these places, once others have left them."""
    return replace(job, nomination=nomination) if job.state is JobState.QUEUED else job


def drop_nomination(job: Job) -> Step:
    """Its places can't be had any more: it waits like any other."""
    goes_on = job.attempts and job.attempts[-1].ending in (Ending.RESIZED, Ending.MOVED)
    reason = "Its reserved GPUs are gone. Waiting for its turn." if goes_on else job.reason
    return Step(replace(job, nomination=(), reason=reason))


# -- what its owner asks ----------------------------------------------------------------------------------------


def cancel(job: Job, now: float, by: str | None = None) -> Step:
    """End it for good; `by` somebody else than its owner. Raises `Conflict` where it has ended by itself."""
    if job.state is JobState.CANCELLED or job.wanted is JobState.CANCELLED:
        return Step(job)
    if job.state.final:
        raise Conflict(f"Job {job.id} has {job.state.value} already and cannot be cancelled.")
    job = replace(job, wanted=JobState.CANCELLED, nomination=())
    if not job.state.holds_gpus:
        return Step(_over(job, JobState.CANCELLED, f"Cancelled{_by(by)}.", now))
    return _stop(job, Ending.STOPPED, f"{CANCELLING}{_by(by)}.", now)


def pause(job: Job, now: float, by: str | None = None) -> Step:
    """Give its GPUs back and wait until it is resumed; `by` somebody else than its owner.

    Raises `Conflict` where it has ended or is about to for good.
    """
    if job.state is JobState.PAUSED or job.wanted is JobState.PAUSED:
        return Step(job)
    _refuse_ended(job, "paused")
    job = replace(job, wanted=JobState.PAUSED, nomination=())
    if not job.state.holds_gpus:
        return Step(replace(job, state=JobState.PAUSED, reason=_paused(f"Paused{_by(by)}.")))
    return _stop(job, Ending.STOPPED, f"{PAUSING}{_by(by)}.", now)


def resume(job: Job, now: float, by: str | None = None) -> Step:
    """Queue a paused job again, behind those that waited meanwhile. A job that is not paused stays as it is."""
    _refuse_ended(job, "resumed")
    if job.wanted is not JobState.PAUSED:
        return Step(job)
    job = replace(job, wanted=None, queued=now)
    if job.state is JobState.PAUSED:
        return Step(replace(job, state=JobState.QUEUED, reason=f"Resumed{_by(by)}; waiting for its turn."))
    return Step(replace(job, reason=f"Resumed{_by(by)}; it will be queued again when its workers have ended."))


def _by(who: str | None) -> str:
    return f" by {who}" if who else ""


def _done(job: Job, doing: str, done: str) -> str:
    """The sentence on a stop that its owner or another asked for, once it is done: with who did it, where that was
    said."""
    return done + job.reason.removeprefix(doing) if job.reason.startswith(doing) else f"{done}."


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
    """It was to come after the success of a job that has ended otherwise."""
    # Whoever sees a job sees the others of its project.
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
    """How the workers of its latest attempt stand, by rank (one of which nothing is known yet is absent)."""
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
    """When the last of the workers that lead the others has ended well; all of them have to have started."""
    leaders = job.request.leaders if len(workers) == len(job.placement) else ()
    if not leaders or any(workers[rank].exit_code != 0 for rank in leaders):
        return None
    return max(workers[rank].at for rank in leaders)


def refused(job: Job, sentence: str, now: float, fault: Fault) -> Step:
    """The engine has not accepted it, and nothing of it runs."""
    attempt = job.attempt
    if attempt is None or not job.state.holds_gpus:
        return Step(job)
    if attempt.ending is None:
        ending = Ending.FAILED if fault is Fault.JOB else Ending.LOST
        attempt = replace(attempt, ending=ending, reason=sentence, fault=fault)
    return Step(_ended(job.with_attempt(attempt), {}, now))


def never_launched(job: Job, now: float) -> Step:
    """After a restart: nothing of its attempt was ever started. It is started now, unless it was to stop anyway."""
    attempt = job.attempt
    if attempt is None or not job.state.holds_gpus:
        return Step(job)
    if job.state is JobState.STARTING:
        return Step(job, (LaunchAttempt(job.id, attempt.number),))
    if attempt.ending is None:
        attempt = replace(attempt, ending=Ending.LOST, reason="The fate of its workers is unknown.")
    return Step(_ended(job.with_attempt(attempt), {}, now))


def forgive(job: Job, now: float) -> Step:
    """It may stand again on the nodes that it has avoided for long enough."""
    return Step(replace(job, avoids=tuple(avoided for avoided in job.avoids if avoided.until > now)))


def overran(job: Job, now: float) -> Step:
    """It has run for its longest run time."""
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


# -- ends -------------------------------------------------------------------------------------------------------


def _stop(job: Job, ending: Ending, reason: str, now: float) -> Step:
    """Have the workers ended. What was decided first about the attempt's end holds; the newest reason is shown."""
    attempt = job.attempt
    if attempt is None or attempt.stopping is not None:
        return Step(replace(job, reason=reason))
    stopping = replace(attempt, stopping=now, ending=attempt.ending or ending, reason=attempt.reason or reason)
    job = replace(job, state=JobState.STOPPING, reason=reason).with_attempt(stopping)
    return Step(job, (StopAttempt(job.id, attempt.number, job.program.grace),))


def _ended(job: Job, workers: Mapping[int, WorkerStatus], now: float) -> Job:
    """The last worker is gone: what becomes of the job."""
    attempt = job.attempts[-1]
    if _succeeded(attempt, workers):
        attempt = replace(attempt, ending=Ending.SUCCEEDED, reason="Succeeded.")
    throughput = next((w.throughput for _, w in sorted(workers.items()) if w.throughput is not None), None)
    ended = max((w.at for w in workers.values()), default=now)
    attempt = replace(attempt, ended=_not_before(job, ended), throughput=throughput)
    job = job.with_attempt(attempt)
    if attempt.ending is Ending.SUCCEEDED:
        return _over(job, JobState.SUCCEEDED, attempt.reason, now)
    if job.wanted is JobState.CANCELLED:
        return _over(job, JobState.CANCELLED, _done(job, CANCELLING, "Cancelled"), now)
    if not is_tried_again(job):
        return _over(job, JobState.FAILED, attempt.reason, now)
    if job.wanted is JobState.PAUSED:
        return replace(job, state=JobState.PAUSED, reason=_paused(_done(job, PAUSING, "Paused")))
    return replace(job, state=JobState.QUEUED, reason=why_again(job))


def _succeeded(attempt: Attempt, workers: Mapping[int, WorkerStatus]) -> bool:
    """Every rank ended well and by itself: a worker that was told to stop may end well and yet have work left."""
    return len(workers) == len(attempt.placement) and all(
        worker.exit_code == 0 and not _was_stopped(attempt, worker) for worker in workers.values()
    )


def _was_stopped(attempt: Attempt, worker: WorkerStatus) -> bool:
    """Whether it ended because it was told to. Times alone can't tell where the clock was set back meanwhile."""
    if attempt.stopping is None:
        return False
    return worker.at >= attempt.stopping if worker.stopped is None else worker.stopped


def _over(job: Job, state: JobState, reason: str, now: float) -> Job:
    return replace(job, state=state, reason=reason, ended=_not_before(job, now), nomination=())


def _not_before(job: Job, at: float) -> float:
    """An instant, but none before what has happened to the job: the clock may have been set back."""
    attempt = job.attempt
    known = () if attempt is None else (attempt.created, attempt.started, attempt.ended)
    return max(at, job.submitted, *(instant for instant in known if instant is not None))


# -- workers ----------------------------------------------------------------------------------------------------


def _first_fault(workers: Mapping[int, WorkerStatus]) -> WorkerStatus | None:
    faults = [worker for worker in workers.values() if worker.state.over and worker.exit_code != 0]
    return min(faults, key=lambda worker: (worker.at, worker.rank), default=None)


def _ending(worker: WorkerStatus) -> Ending:
    """What an attempt ends as that ends because of this worker."""
    match worker.fault:
        case Fault.JOB:
            return Ending.FAILED
        case Fault.PLACE | Fault.ENGINE:
            return Ending.LOST
        case None:
            unknown = worker.state is WorkerState.LOST or worker.exit_code is None
            return Ending.LOST if unknown else Ending.FAILED


def _avoid(job: Job, workers: Mapping[int, WorkerStatus], now: float) -> Job:
    """The next attempt stays away from the nodes that could not run this one."""
    placement = job.attempts[-1].placement
    bad = {placement[rank].node for rank, worker in workers.items() if worker.fault is Fault.PLACE}
    new = sorted(bad - {avoided.node for avoided in job.avoids})
    return replace(job, avoids=(*job.avoids, *(Avoided(node, now + AVOIDED) for node in new)))
