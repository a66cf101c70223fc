"""What would help a job to start: one sentence for each remedy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scheduler.model import Job, JobState, Milli, Pool, gpu_count, time_of_day
from scheduler.policy.blocking import (
    AboveShare,
    AfterJobs,
    ArrayFull,
    AtLimit,
    AtResourceLimit,
    AvoidsNodes,
    Blocker,
    NeverFits,
    NoBuildGpu,
    NoCapacity,
    NoDomain,
    NoGpuOfType,
    NoQueue,
    OutsideGuarantee,
    OutsideResourceGuarantee,
    OverBuildQuota,
    Reserved,
    RetryPause,
)
from scheduler.policy.intheway import InTheWay

if TYPE_CHECKING:
    from scheduler.policy import Decision


def would_help(job: Job, decision: Decision | None, *, others: bool) -> list[str]:
    """The remedies for an unfinished job; none where it runs. `others`: other projects hold GPUs that it could use."""
    if job.state is JobState.PAUSED:
        return ["Resume it."]
    if job.state is not JobState.QUEUED or decision is None:
        return []
    if decision.after:
        count = len(decision.after)
        who = "the job that makes room" if count == 1 else f"the {count} that make room"
        return [f"It starts when {who} has released its GPUs. Nothing else is needed."]
    return [] if decision.blocked_by is None else _remedies(job, decision.blocked_by, others)


def guarantee_rises(job: Job, pool: Pool, now: float) -> Iterator[str]:
    """When the guarantees of the job's project and of those above it rise; `pool` has the guarantees in force."""
    projects = {project.name: project for project in pool.projects}
    project = projects.get(job.request.project)
    while project is not None:
        for change in project.changes[:1]:
            before, after = project.guaranteed, change.guaranteed
            if before is not None and (after is None or after > before):
                rises = "becomes unlimited" if after is None else f"rises to {gpu_count(after)}"
                at = time_of_day(change.at, change.timezone, now)
                yield f"The guarantee of project {project.name} {rises} at {at}."
        project = projects.get(project.parent) if project.parent is not None else None


def _remedies(job: Job, blocker: Blocker, others: bool) -> list[str]:
    match blocker:
        case AtLimit(project, limit, allocated, asked):
            most = allocated + asked
            return [
                f"Jobs of project {project} release {gpu_count(most - limit)}.",
                f"An administrator raises the limit of project {project} from {gpu_count(limit)} to {gpu_count(most)}.",
            ]
        case OutsideGuarantee(project, guaranteed, allocated, asked):
            most = allocated + asked
            return [
                f"Jobs of project {project} that can't be preempted release {gpu_count(most - guaranteed)}.",
                "Submit it as preemptible; then it may use idle GPUs beyond the guarantee.",
                f"An administrator raises the guarantee of project {project} to {gpu_count(most)}.",
            ]
        case AtResourceLimit(project, resource, limit, allocated, asked):
            most = allocated + asked
            return [
                f"Jobs of project {project} release {resource.in_words(most - limit)}.",
                f"An administrator raises the limit of project {project} from {resource.in_words(limit)} to "
                f"{resource.in_words(most)}.",
            ]
        case OutsideResourceGuarantee(project, resource, guaranteed, allocated, asked):
            most = allocated + asked
            return [
                f"Jobs of project {project} that can't be preempted release {resource.in_words(most - guaranteed)}.",
                "Submit it as preemptible.",
                f"An administrator raises the guarantee of project {project} to {resource.in_words(most)}.",
            ]
        case NeverFits():
            return [
                "Submit it again with less per worker, or with fewer workers.",
                "Ask an administrator to add larger nodes.",
            ]
        case AvoidsNodes():
            return [
                "It is tried again on the nodes that could not run it, once they have been avoided for a while.",
                "Other nodes come back, or an administrator adds some.",
            ]
        case NoCapacity(_, asked, free) | NoBuildGpu(_, asked, free):
            return [_given_back(asked, free)]
        case NoDomain(_, level, asked, ever):
            where = "one node" if level == "node" else f"one {level}"
            wish = f"Submit it again with {where} as a preference (--prefer) instead of a requirement."
            if ever:
                return [f"{gpu_count(asked)} become free within {where}.", wish]
            return [wish, f"Submit it again with smaller needs, so that {where} is large enough."]
        case NoGpuOfType(_, gpu_types):
            types = " or ".join(gpu_types)
            return [f"GPUs of type {types} are released or added.", "Submit it again and allow other types."]
        case AboveShare(_, project, _, allocated, asked, free):
            return [_given_back(asked, free), *(_from_others(project, allocated + asked) if others else ())]
        case Reserved(_, _, asked, free):
            found = ["The first job in line starts.", _given_back(asked, free)]
            if job.request.expected_runtime is None:
                found.append("Declare with --expected-runtime that it ends before the other job can start.")
            return found
        case InTheWay(_, when):
            return [
                f"The guarantee changes at {when}; the job is considered again then.",
                "Declare with --expected-runtime that it ends before then.",
            ]
        case AfterJobs():
            return ["The jobs that it depends on end as required."]
        case ArrayFull():
            return ["One of the jobs of its array ends."]
        case RetryPause() | NoQueue() | OverBuildQuota():
            return []


def _from_others(project: str, most: Milli) -> list[str]:
    return [
        f"Jobs of project {project} release GPUs: below its fair share it may reclaim GPUs from others.",
        f"An administrator raises the guarantee of project {project} to {gpu_count(most)}. A project always gets its "
        "guarantee back.",
    ]


def _given_back(asked: Milli, free: Milli) -> str:
    missing = asked - free
    if missing > 0:
        return f"Other jobs or sessions release {gpu_count(missing)}."
    return "Enough GPUs become free together, with the CPUs and memory it needs."
