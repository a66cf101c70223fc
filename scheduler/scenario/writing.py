"""Writes a snapshot as a scenario, so that any decision of a live pool can be inspected and repeated.

What must hold: read back, it leads the policy to the same decision. Times become seconds from the snapshot's instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.model import (
    ONE,
    ForeignUse,
    MiB,
    Milli,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Shape,
    WorkerGroup,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Snapshot
from scheduler.pool.file import bounds_entry, file_of, quota_entries
from scheduler.scenario.entries import (
    ChangeEntry,
    ForeignEntry,
    ForeignGpuEntry,
    GroupEntry,
    JobEntry,
    NodeEntry,
    PlannedSettings,
    ProjectEntry,
    Scenario,
    WorkerEntry,
)
from scheduler.schema import UserEntry


def scenario_of(snapshot: Snapshot) -> Scenario:
    """The scenario that describes a snapshot."""
    pool, now = snapshot.pool, snapshot.now
    nodes = {node.name: node for node in snapshot.nodes}
    return Scenario(
        nodes=[_node(node) for node in snapshot.nodes],
        projects=[_project(project, now, snapshot.usage) for project in pool.projects],
        jobs=[_job(workload, nodes, pool, now) for workload in snapshot.workloads],
        settings=PlannedSettings(**file_of(pool).settings.model_dump()),
        users=_users(snapshot),
        **{key: getattr(file_of(pool), key) for key in _AS_IN_THE_POOL_FILE},
    )


_AS_IN_THE_POOL_FILE = ("node_pools", "topology", "default_build_quota")


def _users(snapshot: Snapshot) -> list[UserEntry]:
    """The build quotas in force of those who have one of their own, and of those who wait for a session: theirs may be
    that of a group."""
    quotas = {user.name: user.build_quota for user in snapshot.pool.users}
    for request in (workload.request for workload in snapshot.workloads if not workload.running):
        if request.user and request.build_quota is not None:
            quotas[request.user] = request.build_quota
    return [UserEntry(name=name, build_quota=quota / ONE) for name, quota in quotas.items()]


def without_defaults(scenario: Scenario) -> dict[str, Any]:
    """The scenario for JSON or YAML, without default values."""
    content = scenario.model_dump(mode="json", exclude_defaults=True)
    for project, entry in zip(content.get("projects", ()), scenario.projects, strict=True):
        project["guaranteed"] = entry.guaranteed  # absent, it would be the sum of those below
    return content


def _node(node: Node) -> NodeEntry:
    return NodeEntry(
        name=node.name,
        gpus=node.gpus,
        gpu_type=node.gpu_type,
        gpu_memory_gib=_gib(node.gpu_memory),
        cpus=_whole(node.cpus),
        memory_gib=_gib(node.memory),
        node_pool=node.node_pool,
        labels=dict(node.labels),
        links=[list(group) for group in node.gpu_links],
        schedulable=node.schedulable,
        gpu_parts=node.gpu_parts,
        isolation=node.isolation,
        foreign=_foreign(node.foreign),
    )


def _foreign(used: ForeignUse) -> ForeignEntry:
    return ForeignEntry(
        gpus=[ForeignGpuEntry(index=gpu, share=share / ONE) for gpu, share in used.gpus],
        unnumbered=used.unnumbered / ONE,
        cpus=used.cpus / ONE,
        memory_gib=used.memory / 1024,
    )


def _project(project: Project, now: float, usage: Mapping[ProjectName, float]) -> ProjectEntry:
    return ProjectEntry(
        name=project.name,
        parent=project.parent,
        guaranteed=_whole(project.guaranteed),
        limit=_whole(project.limit),
        weight=_whole(project.weight),
        priority=project.priority,
        usage=usage.get(project.name, 0.0),
        created=project.created - now,
        order=project.order,
        quotas=quota_entries(project),
        **bounds_entry(project),
        changes=[
            ChangeEntry(at=change.at - now, guaranteed=_whole(change.guaranteed), timezone=change.timezone)
            for change in project.changes
        ],
    )


def _job(workload: Workload, nodes: Mapping[NodeName, Node], pool: Pool, now: float) -> JobEntry:
    request, shape = workload.request, workload.request.shape
    groups = [_group(group) for group in request.groups]
    gang: dict[str, Any] = {"groups": groups} if groups else _amounts(shape)
    if not groups:
        gang["workers"] = request.workers
        gang["min_workers"] = None if request.min_workers == request.workers else request.min_workers
    return JobEntry(
        **gang,
        name=workload.id,
        project=request.project or None,
        environment=request.environment,
        user=request.user or None,
        priority=request.priority,
        preemptible=request.preemptible,
        submitted=workload.submitted - now,
        gpu_types=_list(request.gpu_types),
        node_pools=_list(request.node_pools),
        require=request.require,
        prefer=request.prefer if request.prefer in ("node", *pool.topology) else None,
        min_runtime=request.min_runtime,
        expected_runtime=request.expected_runtime,
        throughputs={gpu_type: throughput / ONE for gpu_type, throughput in request.throughputs},
        spread_throughputs={gpu_type: throughput / ONE for gpu_type, throughput in request.spread_throughputs},
        avoids=[name for name in request.avoids if name in nodes],
        state="stopping" if workload.stopping else "running" if workload.running else "queued",
        started=_since(workload.started, now),
        checkpointed=_since(workload.checkpointed, now),
        preempted=_since(workload.preempted, now),
        preemptions=workload.preemptions,
        served=workload.served,
        placement=_workers([worker for worker in workload.placement if _is_there(worker, nodes)]),
        nomination=_workers(
            workload.nomination if all(_is_there(worker, nodes) for worker in workload.nomination) else ()
        ),
        lent=_workers([worker for worker in workload.claim if _is_there(worker, nodes)]),
        recalled=workload.recalled,
    )


def _group(group: WorkerGroup) -> GroupEntry:
    return GroupEntry(name=group.name, workers=group.workers, **_amounts(group.shape))


def _amounts(shape: Shape) -> dict[str, Any]:
    return {
        "gpus": None if shape.gpu_memory else _whole(shape.gpus),
        "gpu_memory_gib": _gib(shape.gpu_memory),
        "cpus": _whole(shape.cpus),
        "memory_gib": _gib(shape.memory),
    }


def _workers(placement: Iterable[WorkerPlacement]) -> list[WorkerEntry]:
    return [WorkerEntry(node=worker.node, gpus=list(worker.gpus)) for worker in placement]


def _is_there(worker: WorkerPlacement, nodes: Mapping[NodeName, Node]) -> bool:
    """Whether the worker's node and GPUs (still) exist: the policy sees no others."""
    node = nodes.get(worker.node)
    return node is not None and all(gpu < node.gpus for gpu in worker.gpus)


def _whole(amount: Milli | None) -> float | None:
    return None if amount is None else amount / ONE


def _gib(amount: MiB | None) -> float | None:
    return None if amount is None else amount / 1024


def _since(at: float | None, now: float) -> float | None:
    return None if at is None else at - now


def _list(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
