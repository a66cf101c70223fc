"""What would help a job to start: a sentence for each remedy, and what its reader can do about it.

Nothing is offered to a caller that the routes would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from scheduler.api.access import Access, Scope
from scheduler.errors import Invalid
from scheduler.model import Job, JobState, Milli, Pool, ProjectName, gpu_count, time_of_day
from scheduler.policy.blocking import (
    AboveShare,
    AfterJobs,
    ArrayFull,
    AtLimit,
    AtResourceLimit,
    AvoidsNodes,
    Blocker,
    Delegated,
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
from scheduler.pool.rules import check_priority
from scheduler.schema import HIGHEST_PRIORITY, Remedy, RemedyAction

if TYPE_CHECKING:
    from scheduler.controller.book import Book
    from scheduler.policy import Decision


UNSET = ""
"""The option as it would be without being given."""


@dataclass(frozen=True, slots=True)
class Means:
    """What the caller may do for a job."""

    others: bool = False
    """Other projects hold GPUs that it could use."""
    changes: bool = False
    """The caller may resume it …"""
    promotes: bool = False
    """… and raise its priority."""
    resubmits: bool = False
    """The caller may submit it again."""
    own: Sequence[tuple[Job, Milli]] = ()
    """The caller's jobs that hold what it waits for, and how much."""
    project: ProjectName | None = None
    """Another project that takes the caller's jobs, and whose guarantee has room for this one."""


def means(job: Job, holding: Sequence[tuple[Job, Milli]], book: Book, access: Access, now: float) -> Means:
    """`holding` are the jobs that hold what it waits for."""
    submits, owns = Scope.SUBMIT in access.caller.scopes, access.owns(job)
    changes = submits and (owns or access.caller.admin)
    return Means(
        others=any(other.request.project != job.request.project for other, _ in holding),
        changes=changes,
        promotes=changes and _may_rise(job, book.pool),
        resubmits=submits and owns,
        own=[each for each in holding if access.owns(each[0])] if submits and owns else (),
        project=_with_room(job, book, access, now) if submits and owns else None,
    )


def remedies(job: Job, decision: Decision | None, may: Means) -> list[Remedy]:
    """The remedies for an unfinished job; none where it runs."""
    if job.state is JobState.PAUSED:
        return [Remedy(sentence="Resume it.", action=_action("resume", job) if may.changes else None)]
    if job.state is not JobState.QUEUED or decision is None:
        return []
    if decision.after:
        count = len(decision.after)
        who = "the job that makes room" if count == 1 else f"the {count} that make room"
        return _said(f"It starts when {who} has released its GPUs. Nothing else is needed.")
    if decision.blocked_by is None:
        return []
    return [*_own(job, decision, decision.blocked_by, may), *_remedies(job, decision.blocked_by, may)]


def guarantee_rises(job: Job, pool: Pool, now: float) -> Iterator[Remedy]:
    """When the guarantees of the job's project and of those above it rise; `pool` has the guarantees in force."""
    projects = {project.name: project for project in pool.projects}
    project = projects.get(job.request.project)
    while project is not None:
        for change in project.changes[:1]:
            before, after = project.guaranteed, change.guaranteed
            if before is not None and (after is None or after > before):
                rises = "becomes unlimited" if after is None else f"rises to {gpu_count(after)}"
                at = time_of_day(change.at, change.timezone, now)
                yield from _said(f"The guarantee of project {project.name} {rises} at {at}.")
        project = projects.get(project.parent) if project.parent is not None else None


def _own(job: Job, decision: Decision, blocker: Blocker, may: Means) -> Iterator[Remedy]:
    """What the caller can do at once."""
    project, position = job.request.project, decision.position
    if may.promotes and position is not None and position > 1:
        sentence = f"A higher priority: it is number {position} in line in project {project}."
        yield Remedy(sentence=sentence, action=_action("priority", job))
    enough = [(amount, other.id, other) for other, amount in may.own if 0 < _missing(blocker, other) <= amount]
    if enough:
        amount, _, other = min(enough)
        sentence = f"Your job {other.name} ends; it holds {gpu_count(amount)}."
        yield Remedy(sentence=sentence, action=_action("cancel", other))
    if may.project is not None and isinstance(blocker, AtLimit | OutsideGuarantee | AboveShare):
        sentence = f"Submit it again in project {may.project}, whose guarantee has room for it."
        yield Remedy(sentence=sentence, action=_action("clone", job, project=may.project))


def _missing(blocker: Blocker, holder: Job) -> Milli:
    """The GPUs that this job would have to release; 0 if its end would not be enough."""
    match blocker:
        case AtLimit(_, limit, allocated, asked):
            return allocated + asked - limit
        case OutsideGuarantee(_, guaranteed, allocated, asked):
            return 0 if holder.request.preemptible else allocated + asked - guaranteed
        case NoCapacity(_, asked, free, one_node):
            return asked if one_node else max(0, asked - free)
        case AboveShare(_, _, _, _, asked, free):
            return max(0, asked - free)
        case _:
            return 0


def _with_room(job: Job, book: Book, access: Access, now: float) -> ProjectName | None:
    """The first other project of the caller whose guarantee is not used up by what it holds and waits for."""
    in_force = {project.name: project for project in book.pool_at(now).projects}
    for name in access.projects:
        project, figures = in_force.get(name), book.plan.projects.get(name)
        guaranteed = project.guaranteed if project else None
        if name != job.request.project and guaranteed is not None:
            used = max(figures.allocated, figures.demand) if figures else 0
            if used + job.request.gpus <= guaranteed:
                return name
    return None


def _may_rise(job: Job, pool: Pool) -> bool:
    """Whether the job may have a higher priority."""
    try:
        check_priority(job.request.project, job.request.priority + 1, pool)
    except Invalid:
        return False
    return job.request.priority < HIGHEST_PRIORITY


def _action(kind: Literal["resume", "priority", "cancel", "clone"], job: Job, **options: str) -> RemedyAction:
    return RemedyAction(kind=kind, job=job.id, name=job.name, options=options)


def _said(*sentences: str) -> list[Remedy]:
    """Remedies that are not in the caller's hands."""
    return [Remedy(sentence=sentence, action=None) for sentence in sentences]


def _remedies(job: Job, blocker: Blocker, may: Means) -> list[Remedy]:
    def again(sentence: str, **options: str) -> Remedy:
        return Remedy(sentence=sentence, action=_action("clone", job, **options) if may.resubmits else None)

    match blocker:
        case AtLimit(project, limit, allocated, asked):
            most = allocated + asked
            return _said(
                f"Jobs of project {project} release {gpu_count(most - limit)}.",
                f"An administrator raises the limit of project {project} from {gpu_count(limit)} to {gpu_count(most)}.",
            )
        case OutsideGuarantee(project, guaranteed, allocated, asked):
            most = allocated + asked
            return [
                *_said(f"Jobs of project {project} that can't be preempted release {gpu_count(most - guaranteed)}."),
                again("Submit it as preemptible; then it may use idle GPUs beyond the guarantee.", preemptible=UNSET),
                *_said(f"An administrator raises the guarantee of project {project} to {gpu_count(most)}."),
            ]
        case AtResourceLimit(project, resource, limit, allocated, asked):
            most = allocated + asked
            return _said(
                f"Jobs of project {project} release {resource.in_words(most - limit)}.",
                f"An administrator raises the limit of project {project} from {resource.in_words(limit)} to "
                f"{resource.in_words(most)}.",
            )
        case OutsideResourceGuarantee(project, resource, guaranteed, allocated, asked):
            most = allocated + asked
            released, raised = resource.in_words(most - guaranteed), resource.in_words(most)
            return [
                *_said(f"Jobs of project {project} that can't be preempted release {released}."),
                again("Submit it as preemptible.", preemptible=UNSET),
                *_said(f"An administrator raises the guarantee of project {project} to {raised}."),
            ]
        case NeverFits():
            return [
                again("Submit it again with less per worker, or with fewer workers."),
                *_said("Ask an administrator to add larger nodes."),
            ]
        case AvoidsNodes():
            return _said(
                "It is tried again on the nodes that could not run it, once they have been avoided for a while.",
                "Other nodes come back, or an administrator adds some.",
            )
        case NoCapacity(_, asked, free) | NoBuildGpu(_, asked, free):
            return _said(_given_back(asked, free))
        case NoDomain(_, level, asked, ever):
            where = "one node" if level == "node" else f"one {level}"
            wish = again(
                f"Submit it again with {where} as a preference (--prefer) instead of a requirement.",
                require=UNSET,
                prefer=level,
            )
            if ever:
                return [*_said(f"{gpu_count(asked)} become free within {where}."), wish]
            return [wish, *_said(f"Submit it again with smaller needs, so that {where} is large enough.")]
        case NoGpuOfType(_, gpu_types):
            types = " or ".join(gpu_types)
            return [
                *_said(f"GPUs of type {types} are released or added."),
                again("Submit it again and allow other types.", gpu_types=UNSET),
            ]
        case AboveShare(_, project, _, allocated, asked, free):
            from_others = _from_others(project, allocated + asked) if may.others else ()
            return _said(_given_back(asked, free), *from_others)
        case Reserved(_, _, asked, free):
            found = _said("The first job in line starts.", _given_back(asked, free))
            if job.request.expected_runtime is None:
                found.append(again("Declare with --expected-runtime that it ends before the other job can start."))
            return found
        case InTheWay(_, when):
            return [
                *_said(f"The guarantee changes at {when}; the job is considered again then."),
                again("Declare with --expected-runtime that it ends before then."),
            ]
        case AfterJobs():
            return _said("The jobs that it depends on end as required.")
        case ArrayFull():
            return _said("One of the jobs of its array ends.")
        case Delegated(scheduler):
            return _said(f"{scheduler} gives it GPUs, by the quotas that the administrators of the cluster have set.")
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
