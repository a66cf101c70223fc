"""The recent use of each project, updated by the starts and ends of attempts.

What must hold: an attempt counts from the allocation of its GPUs until its last worker has ended, whenever that is
reported. A change of usage is written in the transaction of its start or end, so after a crash usage matches the jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scheduler.model import (
    ONE,
    Environment,
    Job,
    Milli,
    Node,
    Pool,
    ProjectName,
    ProjectUsage,
    WorkloadId,
    held_by,
)
from scheduler.policy import Snapshot

AGAIN = 1 / 32
"""Where usage counts, the policy plans again after this part of the half-life: usage may have decayed by a fiftieth
…"""

AGAIN_AT_MOST = 60.0
"""… but at most once in this many seconds."""


def after(
    usage: Mapping[ProjectName, ProjectUsage], before: Mapping[WorkloadId, Job], jobs: Iterable[Job], half_life: float
) -> dict[ProjectName, ProjectUsage]:
    """The usage of the projects for which it changes with `jobs`; `before` is their state before."""
    found: dict[ProjectName, ProjectUsage] = {}
    for job in jobs:
        project = job.request.project
        for more, since in _steps(before.get(job.id), job):
            known = found.get(project) or usage.get(project) or ProjectUsage(project)
            found[project] = known.hold(more, since, half_life)
    return found


def _steps(before: Job | None, job: Job) -> Iterator[tuple[Milli, float]]:
    """By how much what a job holds has changed, and since when."""
    held = before is not None and before.state.holds_gpus
    if before is not None and held and not _runs(job, len(before.attempts)):
        attempt = job.attempts[len(before.attempts) - 1]
        yield (
            -held_by(before.placement),
            max(attempt.created, attempt.ended or 0.0),
        )  # a clock may go backwards
    if job.state.holds_gpus and not (before is not None and held and _runs(before, len(job.attempts))):
        yield held_by(job.placement), job.attempts[-1].created


def _runs(job: Job, attempt: int) -> bool:
    return job.state.holds_gpus and len(job.attempts) == attempt


def averages(usage: Mapping[ProjectName, ProjectUsage], pool: Pool, now: float) -> dict[ProjectName, float]:
    """The recent average of GPUs held by each project and those below it, in thousandths."""
    half_life, parents = pool.settings.usage_half_life, {p.name: p.parent for p in pool.projects}
    found = dict.fromkeys(parents, 0.0)
    for project, used in usage.items():
        name: ProjectName | None = project
        average = used.average_at(now, half_life)
        while name is not None and name in parents:
            found[name] += average
            name = parents[name]
    return found


def shares(
    usage: Mapping[ProjectName, ProjectUsage], pool: Pool, nodes: Iterable[Node], now: float
) -> dict[ProjectName, float]:
    """The same as shares of the GPUs for training, where the pool counts usage at all."""
    if not pool.settings.time_aware:
        return {}
    train = {node_pool.name for node_pool in pool.node_pools if node_pool.environment is Environment.TRAIN}
    gpus = sum([node.gpus for node in nodes if node.schedulable and node.node_pool in train])
    return {name: average / (gpus * ONE) for name, average in averages(usage, pool, now).items()} if gpus else {}


def again_at(snapshot: Snapshot) -> float | None:
    """When usage will have decayed so far that another project may be due GPUs without any event."""
    settings = snapshot.pool.settings
    if not settings.time_aware or not snapshot.workloads:
        return None
    return snapshot.now + max(AGAIN_AT_MOST, AGAIN * settings.usage_half_life)
