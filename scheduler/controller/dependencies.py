"""Jobs that are held back: they wait for other jobs or for their next retry, not for GPUs, so the policy does not see
them.

Pure. What must hold:
- A job that depends on another starts when that one has ended as required. A job that can no longer start is ended in
  the same change that ends the other. So a dependency that is not in the book is satisfied, also after a `kill -9`.
- At most `max_parallel` jobs of an array hold GPUs, and those with the lowest indices start first, except that a job
  which is resized or moved keeps its turn.
- A job that fails repeatedly is retried after longer and longer pauses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from scheduler.controller.lifecycle import AS_ENDED, never_starts
from scheduler.controller.retries import again_at
from scheduler.errors import Conflict
from scheduler.model import After, Ending, Job, JobId, JobState, WorkloadId, duration
from scheduler.policy.blocking import AfterJobs, ArrayFull, RetryPause
from scheduler.policy.types import Action, Decision


def is_dependent(job: Job) -> bool:
    """Whether a job may have to be held back, or may hold back others of its array."""
    return bool(job.request.after) or job.request.array is not None or again_at(job) is not None


def names(jobs: Iterable[Job]) -> frozenset[str]:
    """What other jobs may depend on: these jobs and their arrays."""
    found = set[str]()
    for job in jobs:
        found.add(job.id)
        if job.request.array is not None:
            found.add(job.request.array.id)
    return frozenset(found)


def blocked(
    dependent: Collection[Job], jobs: Collection[str], pauses: Mapping[str, float]
) -> dict[WorkloadId, Decision]:
    """The queued jobs that must not start now, with what they wait for. `jobs` are the unfinished ones; `pauses` says
    when those that pause may be retried."""
    if not dependent:
        return {}
    arrays = names(dependent)
    found: dict[WorkloadId, Decision] = {}
    running: dict[str, int] = defaultdict(int)
    waiting: dict[str, list[Job]] = defaultdict(list)
    for job in dependent:
        array = job.request.array
        if job.state.holds_gpus and array is not None:
            running[array.id] += 1
        elif job.id in pauses:
            found[job.id] = _pauses(job, pauses[job.id])
        elif job.state is JobState.QUEUED:
            missing = [after for after in job.request.after if after.job in jobs or after.job in arrays]
            if missing:
                found[job.id] = Decision(
                    Action.WAIT,
                    _waits_for(missing),
                    blocked_by=AfterJobs(tuple([each.job for each in missing])),
                )
            elif array is not None:
                waiting[array.id].append(job)
    for name, members in waiting.items():
        found.update(_beyond(members, running[name]))
    return found


def _beyond(jobs: list[Job], running: int) -> Mapping[WorkloadId, Decision]:
    """The waiting jobs of an array that exceed `max_parallel`."""
    array = jobs[0].request.array
    if array is None or array.max_parallel is None:
        return {}
    jobs.sort(key=lambda job: (not job.nomination, job.request.array.index if job.request.array else 0))
    decision = Decision(
        Action.WAIT,
        f"At most {array.max_parallel} jobs of this array may run at the same time.",
        blocked_by=ArrayFull(array.id, array.max_parallel),
    )
    return {job.id: decision for job in jobs[max(0, array.max_parallel - running) :]}


def _waits_for(missing: Iterable[After]) -> str:
    sentences = [f"job {each.job} to {'end' if each.afterany else 'succeed'}" for each in missing]
    more = f" and {len(sentences) - 3} more" if len(sentences) > 3 else ""
    return f"Waits for {', '.join(sentences[:3])}{more}."


def _pauses(job: Job, at: float) -> Decision:
    attempt = job.attempts[-1]
    pause = duration((again_at(job) or 0.0) - (attempt.ended or 0.0))
    what = "Has failed again" if attempt.ending is Ending.FAILED else f"Could not be started ({attempt.reason})"
    return Decision(
        Action.WAIT,
        f"{what}; retried {pause} after that.",
        blocked_by=RetryPause(at),
    )


def check_dependency(after: After, ended: Job) -> None:
    """Raises `Conflict` where a job that depends on this finished one could never start."""
    if not (after.afterany or ended.state is JobState.SUCCEEDED):
        raise Conflict(
            f"Job {ended.id} has {AS_ENDED[ended.state]} already, so no job can wait for its success. "
            f"Submit it again first, or write {ended.id}:any to run after it however it ended.",
            field="after",
        )


def never_satisfied(ended: Job, dependent: Iterable[Job], now: float) -> tuple[Job, ...]:
    """The jobs that can no longer start now that this one has ended, and those that depend on them."""
    followers: dict[str, list[Job]] = defaultdict(list)
    for job in dependent:
        for after in job.request.after:
            if not after.afterany:
                followers[after.job].append(job)
    over: dict[JobId, Job] = {}
    causes = [ended]
    for cause in causes:
        if cause.state is JobState.SUCCEEDED:
            continue
        for job in (follower for name in names((cause,)) for follower in followers.get(name, ())):
            if job.id not in over:
                over[job.id] = never_starts(job, cause, now)
                causes.append(over[job.id])
    return tuple(over.values())
