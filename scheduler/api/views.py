"""The views of the book for a caller: plain functions over values.

A `JobView` combines a job, the decision of the latest plan and the caller. What the caller may not see is left out here
and nowhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from scheduler.api import pausing, redaction
from scheduler.api.access import Access
from scheduler.api.convert import from_mib, from_milli, start_range
from scheduler.api.isolation import isolation_of
from scheduler.controller.pausenotices import notice_of
from scheduler.model import (
    ONE,
    Attempt,
    Environment,
    GpuKey,
    Job,
    JobState,
    Milli,
    Node,
    ProjectName,
    Session,
    UserName,
    WorkerGroup,
    WorkerPlacement,
    WorkloadId,
    held_by,
)
from scheduler.policy import quotas
from scheduler.policy.types import Action, Decision
from scheduler.schema import (
    AttemptView,
    EnvironmentTotals,
    GpuView,
    GroupSubmit,
    JobView,
    NodeView,
    Occupant,
    PoolView,
    WorkerView,
)

if TYPE_CHECKING:
    from scheduler.controller.book import Book
    from scheduler.telemetry import GpuUsage


# -- amounts ------------------------------------------------------------------------------------------------


class Guarantees:
    """The guarantees in force of each project in each part of the pool, and the part of a placement."""

    def __init__(self, book: Book) -> None:
        self._nodes = {node.name: node for node in book.nodes}
        projects = book.in_force.projects
        self.parts = {part: quotas.guarantees(part, projects) for part in quotas.partition_keys(projects)}

    def part_of(self, placement: Iterable[WorkerPlacement]) -> quotas.PartitionKey:
        node = next((self._nodes[worker.node] for worker in placement if worker.node in self._nodes), None)
        return quotas.REMAINDER if node is None else quotas.partition_of(node, self.parts)

    def of(self, project: ProjectName, part: quotas.PartitionKey) -> Milli | None:
        return self.parts[part].get(project, 0)

    def beyond(self, project: ProjectName, part: quotas.PartitionKey, amount: Milli) -> Milli:
        """How much of `amount` exceeds the guarantee."""
        guaranteed = self.of(project, part)
        return 0 if guaranteed is None else max(0, amount - guaranteed)


def over_quota_jobs(book: Book) -> frozenset[WorkloadId]:
    """The jobs that are over their project's guarantee: according to the plan, those that would lose GPUs first."""
    return book.plan.stop_order.over_quota


# -- jobs ---------------------------------------------------------------------------------------------------


def worker_views(placement: Iterable[WorkerPlacement]) -> list[WorkerView]:
    return [
        WorkerView(rank=rank, node=worker.node, gpus=list(worker.gpus), share=from_milli(worker.share))
        for rank, worker in enumerate(placement)
    ]


def _with_error_excerpt(told: str, reason: str, attempt: Attempt | None) -> str:
    """`… ended with exit code 1: ValueError: …` where `reason` (`told` to the caller) says why this attempt ended."""
    if attempt is None or not attempt.error_excerpt or not reason.endswith(attempt.reason):
        return told
    return f"{told.rstrip('.')}: {attempt.error_excerpt}"


def _attempt_view(attempt: Attempt, reason: str) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        created=attempt.created,
        started=attempt.started,
        stopping=attempt.stopping,
        ended=attempt.ended,
        workers=worker_views(attempt.placement),
        exit_codes=list(attempt.exit_codes),
        reason=reason,
        ending=attempt.ending,
    )


def _group_view(group: WorkerGroup) -> GroupSubmit:
    shape = group.shape
    return GroupSubmit(
        name=group.name,
        workers=group.workers,
        gpus=from_milli(shape.gpus),
        gpu_memory_gib=from_mib(shape.gpu_memory),
        cpus=None if shape.cpus is None else from_milli(shape.cpus),
        memory_gib=from_mib(shape.memory),
        leader=group.leader,
    )


def waits(job: Job, book: Book) -> Decision | None:
    """The decision of the latest plan for a waiting job."""
    decision = book.decision(job.id) if job.state is JobState.QUEUED else None
    if decision is not None and decision.action is Action.KEEP:
        return None  # its start is not durable yet
    return decision


def reason_of(job: Job, expected: Decision | None, book: Book, access: Access) -> str:
    """Why a job is in its state, or what it waits for."""
    reason = (expected.reason if expected else "") or job.reason
    last = job.attempts[-1] if job.attempts and access.owns(job) else None
    return _with_error_excerpt(redaction.redacted(reason, job, book, access), reason, last)


def job_view(job: Job, book: Book, access: Access, *, over_quota: bool = False) -> JobView:
    expected = waits(job, book)
    first, last = (job.attempts[0], job.attempts[-1]) if job.attempts else (None, None)
    shape = job.request.shape
    mine = access.owns(job)
    return JobView(
        id=job.id,
        name=job.name,
        project=job.request.project,
        user=job.user,
        mine=mine,
        kind=job.program.kind,
        state=job.state,
        reason=reason_of(job, expected, book, access),
        notice=notice_of(job) or pausing.notice(job, expected, book, access),
        isolation=isolation_of(job, book),
        blocked_by=redaction.blocked_by(expected.details if expected else None, book, access),
        position=expected.position if expected else None,
        estimated_start=expected.estimated_start if expected else None,
        submitted=job.submitted,
        started=first.started if first else None,
        ended=job.ended,
        gpus=from_milli(shape.gpus),
        workers=job.request.workers,
        min_workers=job.request.min_workers,
        groups=[_group_view(group) for group in job.request.groups],
        total_gpus=from_milli(held_by(job.placement) or job.request.gpus),
        priority=job.request.priority,
        preemptible=job.request.preemptible,
        over_quota=over_quota,
        attempts=[
            _attempt_view(
                attempt,
                _with_error_excerpt(
                    redaction.redacted(attempt.reason, job, book, access),
                    attempt.reason,
                    attempt if mine else None,
                ),
            )
            for attempt in job.attempts
        ],
        outputs=list(job.program.outputs),
        exit_code=_exit_code(job, last) if job.state.final else None,
        after=[f"{each.job}:any" if each.afterany else each.job for each in job.request.after] if mine else [],
        array=job.request.array.id if job.request.array else None,
        index=job.request.array.index if job.request.array else None,
        array_size=job.request.array.size if job.request.array else None,
        parameters=dict(job.program.parameters) if mine else {},
        schedule=job.schedule if mine else None,
        checkpointed=job.checkpointed,
        **start_range(expected),
    )


def _exit_code(job: Job, attempt: Attempt | None) -> int | None:
    """The exit code of the first rank that is not 0 (negative for a signal), else 0; `None` where it is not known."""
    if job.state is JobState.SUCCEEDED:
        return 0  # whatever the others' exit codes after their leader has succeeded
    if attempt is None or not attempt.exit_codes:
        return None
    known = [code for code in attempt.exit_codes if code is not None]
    return next((code for code in known if code), 0) if known else None


def job_views(jobs: Iterable[Job], book: Book, access: Access) -> list[JobView]:
    beyond = over_quota_jobs(book)
    return [job_view(job, book, access, over_quota=job.id in beyond) for job in jobs]


# -- the pool -----------------------------------------------------------------------------------------------


def pool_view(book: Book, usage: Mapping[GpuKey, GpuUsage], access: Access) -> PoolView:
    beyond = over_quota_jobs(book)
    environments, drained = {each.name: each.environment for each in book.pool.node_pools}, dict(book.pool.drained)
    occupants: dict[GpuKey, list[Occupant]] = defaultdict(list)
    for session in book.sessions.values():
        for worker in session.placement:
            for gpu in worker.gpus:
                occupants[GpuKey((worker.node, gpu))].append(_session_occupant(session, worker, access))
    for job in book.holding.values():
        for worker in job.placement:
            for gpu in worker.gpus:
                occupants[GpuKey((worker.node, gpu))].append(_job_occupant(job, worker, job.id in beyond, access))
    held = {key: sum(round(each.share * ONE) for each in those) for key, those in occupants.items()}
    foreign = {node.name: _foreign(node, held) for node in book.nodes}
    nodes = [
        NodeView(
            name=node.name,
            node_pool=node.node_pool,
            environment=environments.get(node.node_pool, Environment.TRAIN),
            gpu_type=node.gpu_type,
            schedulable=node.schedulable,
            drained=drained.get(node.name),
            declared=node.declared,
            gpu_parts=node.gpu_parts,
            isolation=node.isolation,
            gpus=[
                _gpu_view(node, gpu, usage.get(key), occupants[key], foreign[node.name].get(gpu, 0))
                for gpu, key in [(gpu, GpuKey((node.name, gpu))) for gpu in range(node.gpus)]
            ],
        )
        for node in book.nodes
    ]
    totals = environment_totals(book)
    return PoolView(
        declared=any(node.declared for node in book.nodes),
        build=totals[Environment.BUILD],
        train=totals[Environment.TRAIN],
        waiting=book.states.get(JobState.QUEUED, 0),
        nodes=nodes,
    )


def _foreign(node: Node, held: Mapping[GpuKey, Milli]) -> dict[int, Milli]:
    """The share of each GPU of a node that is used outside the pool."""
    if not node.foreign.amount:
        return {}
    of_node = {gpu: share for gpu in range(node.gpus) if (share := held.get(GpuKey((node.name, gpu))))}
    return node.foreign.by_gpu(node.gpus, of_node if node.gpu_parts > 1 else of_node.keys())


def environment_totals(book: Book) -> dict[Environment, EnvironmentTotals]:
    """The GPUs of each environment. Over quota is counted by project: what it holds beyond its guarantee.

    Allocated are the GPUs of an environment's workloads, wherever they run. Free are the GPUs of its nodes that nobody
    uses, inside or outside the pool: a build GPU that is lent to a job is allocated to training, and not free to build;
    nor is one that an idle session may have back.
    """
    environments = {node_pool.name: node_pool.environment for node_pool in book.pool.node_pools}
    of_node = {node.name: environments.get(node.node_pool, Environment.TRAIN) for node in book.nodes}
    gpus = dict.fromkeys(Environment, 0)
    for node in book.nodes:
        gpus[of_node[node.name]] += node.gpus * ONE
    held_of: dict[GpuKey, Milli] = defaultdict(int)
    workloads: tuple[Session | Job, ...] = (*book.sessions.values(), *book.holding.values())
    for workload in workloads:
        for worker in workload.placement:
            for gpu in worker.gpus:
                held_of[GpuKey((worker.node, gpu))] += worker.share
    free, foreign, failing = dict(gpus), dict.fromkeys(Environment, 0), dict.fromkeys(Environment, 0)
    for (name, _), share in held_of.items():
        if name in of_node:
            free[of_node[name]] -= share
    for session in book.sessions.values():
        for worker in session.claim:  # what it lends is free for jobs that may be stopped, and not to build
            for gpu in worker.gpus if worker.node in of_node else ():
                unused = ONE - held_of[GpuKey((worker.node, gpu))]
                free[of_node[worker.node]] -= min(worker.share, unused)
    for node in book.nodes:
        failing[of_node[node.name]] += len(node.failing) * ONE
        foreign[of_node[node.name]] += node.foreign.amount - len(node.failing) * ONE
        for gpu, share in _foreign(node, held_of).items():
            free[of_node[node.name]] -= min(share, max(0, ONE - held_of[GpuKey((node.name, gpu))]))
    guarantees = Guarantees(book)
    by_project: dict[tuple[ProjectName, quotas.PartitionKey], Milli] = defaultdict(int)
    for job in book.holding.values():
        by_project[job.request.project, guarantees.part_of(job.placement)] += held_by(job.placement)
    over = sum(guarantees.beyond(*place, amount) for place, amount in by_project.items())
    allocated = {
        Environment.BUILD: sum(held_by(session.placement) for session in book.sessions.values()),
        Environment.TRAIN: sum(by_project.values()),
    }
    return {
        environment: EnvironmentTotals(
            gpus=from_milli(gpus[environment]),
            allocated=from_milli(allocated[environment]),
            over_quota=from_milli(over if environment is Environment.TRAIN else 0),
            free=from_milli(free[environment]),
            foreign=from_milli(foreign[environment]),
            failing=from_milli(failing[environment]),
        )
        for environment in Environment
    }


def _gpu_view(node: Node, gpu: int, usage: GpuUsage | None, occupants: list[Occupant], foreign: Milli) -> GpuView:
    failure = dict(node.failing).get(gpu)
    return GpuView(
        index=gpu,
        memory_gib=from_mib(node.gpu_memory if usage is None else usage.memory),
        used_memory_gib=from_mib(None if usage is None else usage.used),
        utilisation=None if usage is None else usage.utilisation,
        declared=node.declared and usage is not None,
        occupants=occupants,
        foreign=from_milli(foreign if failure is None else 0),
        failure=failure,
        slowness=dict(node.slowness).get(gpu, ONE) / ONE,
    )


def _job_occupant(job: Job, worker: WorkerPlacement, over_quota: bool, access: Access) -> Occupant:
    return _occupant(
        "job",
        access.sees_job(job),
        id=job.id,
        name=job.name,
        user=job.user,
        project=job.request.project,
        worker=worker,
        over_quota=over_quota,
    )


def _session_occupant(session: Session, worker: WorkerPlacement, access: Access) -> Occupant:
    return _occupant(
        "session",
        access.sees_session(session),
        id=session.id,
        name=session.server,
        user=session.user,
        project=None,
        worker=worker,
        over_quota=False,
    )


def _occupant(
    kind: Literal["session", "job"],
    visible: bool,
    *,
    id: str,
    name: str,
    user: UserName,
    project: ProjectName | None,
    worker: WorkerPlacement,
    over_quota: bool,
) -> Occupant:
    """Everybody may see projects and what they hold, but not the owners and names of jobs."""
    return Occupant(
        kind=kind,
        id=id if visible else None,
        name=name if visible else None,
        user=user if visible else None,
        project=project,
        share=from_milli(worker.share),
        over_quota=over_quota,
    )
