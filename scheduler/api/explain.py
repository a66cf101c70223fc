"""Why a job is in its state and what it waits for, in full, as one caller may see it: plain functions over the book.

Jobs that the caller may not see are reported only as sums by project.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from scheduler.api import pausing, redaction
from scheduler.api.access import Access
from scheduler.api.convert import from_milli, start_range
from scheduler.api.remedies import guarantee_rises, means, remedies
from scheduler.api.views import over_quota_jobs
from scheduler.controller import usage
from scheduler.controller.admission import capacity
from scheduler.model import (
    ONE,
    Environment,
    GpuKey,
    Job,
    JobState,
    Milli,
    Node,
    NodeName,
    Pool,
    ProjectName,
    Request,
    WorkerPlacement,
    WorkloadId,
    duration,
    gpu_count,
    held_by,
)
from scheduler.policy import Action, DryRun
from scheduler.policy.similar import between
from scheduler.schema import DryRunView, Explanation, Holder, HolderJob, SpeedView

if TYPE_CHECKING:
    from scheduler.controller.book import Book
    from scheduler.controller.throughputs import MeasuredThroughput

SHOWN = 20
"""The number of jobs of a project that are named, those that would be stopped first."""

_WITHIN = ("limit", "guarantee")
"""A job with one of these reasons waits for jobs of its own project, wherever they run."""

_JOBS = ("after", "array")
"""A job with one of these reasons waits for other jobs and not for GPUs."""


def explanation(job: Job, book: Book, access: Access, now: float) -> Explanation:
    over = job.state.final or job.state is JobState.PAUSED
    decision = None if over else book.decision(job.id)
    waits = job.state is JobState.QUEUED
    blocked = decision.details if decision and waits else {}
    for_gpus = waits and blocked.get("kind") not in (*_JOBS, "retry")
    nodes = _nodes(job.request, book.pool, book.nodes) if for_gpus else frozenset()
    standing = book.holding.values() if for_gpus else ()
    holding = list(_holding(blocked, nodes, standing, book))
    sessions = sum(_on(nodes, session.placement) for session in book.sessions.values())
    expected = book.run_times.estimate(job)
    throughputs = book.run_times.throughputs(job)
    found = [
        *(guarantee_rises(job, book.pool_at(now), now) if for_gpus else ()),
        *remedies(job, decision, means(job, holding, book, access, now)),
    ]
    return Explanation(
        id=job.id,
        name=job.name,
        project=job.request.project,
        state=job.state,
        action=decision.action.value if decision else None,
        reason=redaction.redacted((decision.reason if decision and waits else "") or job.reason, job, book, access),
        notice=pausing.notice(job, decision, book, access),
        blocked_by=redaction.blocked_by(blocked, book, access),
        position=decision.position if decision else None,
        waiting=book.states_in(job.request.project)[JobState.QUEUED],
        estimated_start=decision.estimated_start if decision and waits else None,
        not_before=book.forecast.until if decision and for_gpus and decision.estimated_start is None else None,
        estimate=_estimate(job, holding, book) if waits else "",
        expected_runtime=expected.seconds if expected else None,
        runtime_source=expected.source.value if expected else None,
        speeds=_speed_views(throughputs),
        speed=" ".join(filter(None, [_speed(throughputs), _slow_nodes(job, book)])),
        recent_use=_recent_use(job.request.project, book, now) if for_gpus else "",
        **(start_range(decision) if waits else {}),
        **_similar(job, book),
        size=_size(job, book.pool),
        after=len(decision.after) if decision else 0,
        free=from_milli(_free(nodes, standing, book.nodes) - sessions),
        holders=[*_holders(holding, book, access), *_sessions(sessions)],
        remedies=found,
        would_help=[remedy.sentence for remedy in found],
    )


def dry_run_view(found: DryRun, job: Job, book: Book, access: Access) -> DryRunView:
    decision = found.decision
    return DryRunView(
        starts=decision.action is Action.START,
        after=len(decision.after),
        over_quota=found.over_quota,
        reason=redaction.redacted(decision.reason, job, book, access),
        estimated_start=decision.estimated_start,
        not_before=found.until,
        **start_range(decision),
    )


# -- who holds its GPUs ----------------------------------------------------------------------------


def _nodes(request: Request, pool: Pool, nodes: Iterable[Node]) -> frozenset[NodeName]:
    """The nodes that a job may use and that are large enough for one of its workers."""
    environments = {node_pool.name: node_pool.environment for node_pool in pool.node_pools}
    lent = pool.settings.lending and request.preemptible and not request.node_pools
    return frozenset(
        node.name
        for node in nodes
        if node.schedulable
        and (lent or environments.get(node.node_pool, Environment.TRAIN) is request.environment)
        and (not request.node_pools or node.node_pool in request.node_pools)
        and (request.gpu_types is None or node.gpu_type in request.gpu_types)
        and capacity(request.shape, node)
    )


def _holding(
    blocked: Mapping[str, Any], nodes: frozenset[NodeName], standing: Iterable[Job], book: Book
) -> Iterator[tuple[Job, Milli]]:
    """The jobs that hold what the job waits for, and how much."""
    within = None
    if blocked.get("kind") in _WITHIN:
        within, nodes = _below(blocked["project"], book.pool), frozenset(node.name for node in book.nodes)
    for job in standing:
        amount = _on(nodes, job.placement)
        if amount and (within is None or job.request.project in within):
            yield job, amount


def _below(project: ProjectName, pool: Pool) -> frozenset[ProjectName]:
    """A project and those below it."""
    found = {project}
    while more := {p.name for p in pool.projects if p.parent in found} - found:
        found |= more
    return frozenset(found)


def _on(nodes: frozenset[NodeName], placement: Iterable[WorkerPlacement]) -> Milli:
    return held_by(worker for worker in placement if worker.node in nodes)


def _free(names: frozenset[NodeName], standing: Iterable[Job], nodes: Iterable[Node]) -> Milli:
    """The GPUs of these nodes that are left by the jobs."""
    gpus = sum(node.gpus * ONE for node in nodes if node.name in names)
    return gpus - sum(_on(names, job.placement) for job in standing)


def _holders(holding: list[tuple[Job, Milli]], book: Book, access: Access) -> Iterable[Holder]:
    """By project, the one that holds most first; of each project the jobs that would be stopped first."""
    beyond, order = over_quota_jobs(book), book.plan.stop_order.positions
    projects: dict[str, list[tuple[Job, Milli]]] = defaultdict(list)
    for job, amount in holding:
        projects[job.request.project].append((job, amount))
    sums = {name: sum(amount for _, amount in jobs) for name, jobs in projects.items()}
    for name in sorted(projects, key=lambda name: (-sums[name], name)):
        jobs = projects[name]
        seen = [each for each in jobs if access.sees_job(each[0])]
        yield Holder(
            project=name,
            gpus=from_milli(sums[name]),
            over_quota=from_milli(sum(amount for job, amount in jobs if job.id in beyond)),
            jobs=[
                HolderJob(
                    id=job.id,
                    name=job.name,
                    user=job.user,
                    gpus=from_milli(amount),
                    over_quota=job.id in beyond,
                    expected_end=_expected_end(job, book),
                )
                for job, amount in nsmallest(SHOWN, seen, key=lambda each: _turn(each[0], order))
            ],
        )


def _turn(job: Job, order: Mapping[WorkloadId, int]) -> tuple[float, str]:
    return order.get(job.id, float("inf")), job.id


def _sessions(amount: Milli) -> list[Holder]:
    return [Holder(project=None, gpus=from_milli(amount), over_quota=0, jobs=[])] if amount else []


def _expected_end(job: Job, book: Book) -> float | None:
    estimate = book.run_times.estimate(job)
    started = job.attempt.started if job.attempt else None
    return None if estimate is None or started is None else started + estimate.seconds


def _similar(job: Job, book: Book) -> dict[str, Any]:
    """The spread of the run times of similar jobs, if its own estimate is based on them."""
    runs = () if job.state.final else book.run_times.runs_like(job)
    if not runs:
        return {}
    shortest, longest = between(runs, 0.1, 0.9)
    return {"shortest_runtime": shortest, "longest_runtime": longest, "similar_runs": len(runs)}


# -- how fast ------------------------------------------------------------------------------------------------


def _speed_views(throughputs: Sequence[MeasuredThroughput]) -> list[SpeedView]:
    return [
        SpeedView(
            gpu_type=each.gpu_type,
            relative=round(each.per_second / throughputs[0].per_second, 3),
            spread=None if each.spread is None else round(each.spread / throughputs[0].per_second, 3),
            per_second=each.per_second,
            unit=each.unit.value,
            runs=each.attempts,
        )
        for each in throughputs
    ]


def _speed(throughputs: Sequence[MeasuredThroughput]) -> str:
    """`On A100: 2.7 times as fast as V100 for jobs like this one, measured on 4 runs.`"""
    if len(throughputs) < 2:
        return ""
    best, *others = throughputs
    slower = " and ".join(
        f"{best.per_second / each.per_second:.2g} times as fast as {each.gpu_type}" for each in others
    )
    runs = sum(each.attempts for each in throughputs)
    return f"On {best.gpu_type}: {slower} for jobs like this one, measured on {runs} runs."


def _slow_nodes(job: Job, book: Book) -> str:
    """`n7 runs 2.2 × slower than GPUs of its type.`: of the GPUs that it holds."""
    residuals = book.run_times.residuals
    slowest: dict[str, GpuKey] = {}
    for worker in job.placement:
        for key in [GpuKey((worker.node, gpu)) for gpu in worker.gpus]:
            best = slowest.get(worker.node)
            if key in residuals.slow and (best is None or residuals.slow[key] > residuals.slow[best]):
                slowest[worker.node] = key
    return " ".join(
        f"{node} (GPU {key[1]}) runs {residuals.slow[key] / ONE:.1f} × slower than GPUs of its type, "
        f"measured on {attempts} attempts of {kinds} kinds of jobs."
        for node, key in sorted(slowest.items())
        for attempts, kinds in [residuals.attempts(key)]
    )


# -- the recent use of its project --------------------------------------------------------------------------------


def _recent_use(project: ProjectName, book: Book, now: float) -> str:
    """`Project vision has used 3.2 GPUs on average recently, 40 % of the pool.`: where recent use counts."""
    shares = usage.shares(book.usage, book.pool, book.nodes, now)
    if project not in shares:
        return ""
    average = usage.averages(book.usage, book.pool, now)[project]
    held = gpu_count(10 * round(average / 10))
    return (
        f"Project {project} has used {held} on average recently, {shares[project]:.0%} of the pool. "
        "The more a project has used, the smaller its share of the surplus."
    )


# -- how large -----------------------------------------------------------------------------------------------


def _size(job: Job, pool: Pool) -> str:
    """`Runs with 2 of 4 workers. It gets more when …`: its size, and when it gets more workers."""
    request, has, interval = job.request, len(job.placement), pool.settings.resize_interval
    if job.state is not JobState.RUNNING or request.min_workers == request.workers:
        return ""
    if has == request.workers:
        return f"Runs with all of its {has} workers."
    more = "when there are idle GPUs that nobody else can use"
    if interval and job.checkpointed is None:
        more = f"{more} and it has saved its state, which it has not done yet"
    elif interval:
        least = duration(max(interval, request.min_runtime))
        more = f"{more}, {least} after its latest start, at the earliest"
    return f"Runs with {has} of {request.workers} workers. It gets more {more}."


# -- when ---------------------------------------------------------------------------------------------------

_SOURCES = {
    "declared": "declared by their owners",
    "learned": "learned from earlier jobs like them",
    "limit": "assumed to be their maximum run time",
}


def _estimate(job: Job, holding: list[tuple[Job, Milli]], book: Book) -> str:
    """What the estimated start is based on, or why there is none."""
    decision, forecast = book.decision(job.id), book.forecast
    blocked = decision.details if decision else {}
    if blocked.get("ever") is False:
        return "It can never start on the current pool."
    if blocked.get("kind") in _JOBS:
        return "It waits for other jobs first, then for GPUs."
    if blocked.get("kind") == "retry":
        return "It waits for its next attempt first, then for GPUs."
    estimates = [book.run_times.estimate(other) for other, _ in holding]
    sources = Counter(estimate.source.value for estimate in estimates if estimate is not None)
    unknown = len(estimates) - sources.total()
    if decision is not None and decision.estimated_start is not None:
        said = ", ".join(f"{words} ({sources[name]})" for name, words in _SOURCES.items() if sources[name])
        rests = f" The run times of the jobs that hold what it needs are {said}." if said else ""
        likely = " The range is based on the errors of recent estimates." if decision.start_range else ""
        return f"This assumes that nothing else is submitted and that jobs run as long as expected.{likely}{rests}"
    if forecast.until is not None:
        return "Too many jobs are ahead of it for an estimate."
    if unknown:
        return (
            f"Its start cannot be estimated: jobs that hold what it needs ({unknown} of {len(estimates)}) declare "
            "no run time, and no job like them has ended yet."
        )
    return "It waits for something whose end is unknown."
