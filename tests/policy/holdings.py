"""What workloads hold in a snapshot, and where they may be placed: the simplest form, without code of the policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.model import (
    Bounds,
    Environment,
    Milli,
    Node,
    NodeName,
    Project,
    ProjectName,
    Shape,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Snapshot


def amount(placement: Iterable[WorkerPlacement]) -> Milli:
    return sum(len(worker.gpus) * worker.share for worker in placement)


def is_job(workload: Workload) -> bool:
    return workload.request.environment is Environment.TRAIN


def below(snapshot: Snapshot, project: str) -> set[str]:
    """A project and its descendants."""
    names = {project}
    for _ in snapshot.pool.projects:
        names |= {p.name for p in snapshot.pool.projects if p.parent in names}
    return names


def ancestors(snapshot: Snapshot, name: str | None) -> list[Project]:
    by_name = {p.name: p for p in snapshot.pool.projects}
    found = []
    while name is not None:
        found.append(by_name[ProjectName(name)])
        name = by_name[ProjectName(name)].parent
    return found


def known(snapshot: Snapshot, placement: Iterable[WorkerPlacement]) -> tuple[WorkerPlacement, ...]:
    """The workers on existing nodes."""
    names = {node.name for node in snapshot.nodes}
    return tuple(worker for worker in placement if worker.node in names)


def standing(
    snapshot: Snapshot, workload: Workload, placement: tuple[WorkerPlacement, ...]
) -> list[tuple[WorkerPlacement, Shape]]:
    """Each placed worker, with its shape."""
    names = {node.name for node in snapshot.nodes}
    return [
        (worker, shape)
        for worker, shape in zip(placement, workload.request.shapes, strict=False)
        if worker.node in names
    ]


def held(snapshot: Snapshot, project: str, releasing: bool = False) -> Milli:
    """What the jobs of a project and its descendants hold (stopping ones only with `releasing`)."""
    names = below(snapshot, project)
    return sum(
        amount(known(snapshot, w.placement))
        for w in snapshot.workloads
        if w.request.project in names and w.running and (releasing or not w.stopping) and is_job(w)
    )


def beside(placed: Iterable[tuple[WorkerPlacement, Shape]]) -> dict[str, int]:
    """The CPUs and memory of these workers."""
    shapes = [shape for _, shape in placed]
    return {"cpus": sum(s.cpus or 0 for s in shapes), "memory": sum(s.memory or 0 for s in shapes)}


def held_beside(snapshot: Snapshot, project: str, releasing: bool = False) -> dict[str, int]:
    """As `held`, for CPUs and memory."""
    names = below(snapshot, project)
    return beside(
        placed
        for w in snapshot.workloads
        if w.request.project in names and w.running and (releasing or not w.stopping) and is_job(w)
        for placed in standing(snapshot, w, w.placement)
    )


def bounds(project: Project) -> dict[str, Bounds]:
    return {"cpus": project.cpus, "memory": project.memory}


def guaranteed_beside(snapshot: Snapshot, project: Project, resource: str) -> float:
    """A project's guarantee of a resource: as declared, or in proportion to its GPUs."""
    declared = bounds(project)[resource].guaranteed
    if declared is not None:
        return declared
    nodes = [n for n in snapshot.nodes if n.gpus and n.node_pool == "train"]
    a_gpu = max(((getattr(n, resource) or 0) / n.gpus for n in nodes), default=0)
    if project.guaranteed is None:
        return float("inf")
    own = a_gpu * project.guaranteed / 1000
    names = below(snapshot, project.name) - {project.name}
    if all(bounds(p)[resource].guaranteed is None for p in snapshot.pool.projects if p.name in names):
        return own
    children = [p for p in snapshot.pool.projects if p.parent == project.name]
    return max(own, sum(guaranteed_beside(snapshot, child, resource) for child in children))


def non_preemptible_only(snapshot: Snapshot) -> Snapshot:
    """Only non-preemptible workloads."""
    return replace(snapshot, workloads=tuple(w for w in snapshot.workloads if not w.request.preemptible))


def within(snapshot: Snapshot, nodes: set[NodeName]) -> Snapshot:
    """Only workloads on these nodes."""
    return replace(
        snapshot,
        workloads=tuple(
            replace(w, placement=tuple(worker for worker in w.placement if worker.node in nodes))
            for w in snapshot.workloads
        ),
    )


def domain(node: Node, level: str | None) -> object:
    """The domain of a node, or None."""
    if level in (None, "node"):
        return node.name
    if level not in node.labels:
        return None
    return node.labels.get("block"), (node.labels.get("rack") if level == "rack" else "")


def domains(snapshot: Snapshot, level: str | None) -> list[list[Node]]:
    """The nodes by domain of a level."""
    if level is None:
        return [list(snapshot.nodes)]
    found: dict[object, list[Node]] = {}
    for node in snapshot.nodes:
        if (name := domain(node, level)) is not None:
            found.setdefault(name, []).append(node)
    return list(found.values())


def may_stand(snapshot: Snapshot, workload: Workload, node: Node) -> bool:
    request = workload.request
    own = node.node_pool == ("train" if is_job(workload) else "build")
    lent = snapshot.pool.settings.lending and request.preemptible and is_job(workload)
    return (
        node.schedulable
        and node.name not in request.avoids
        and (own or (lent and node.node_pool == "build"))
        and (request.gpu_types is None or node.gpu_type in request.gpu_types)
    )


def gang_amount(snapshot: Snapshot, workload: Workload) -> Milli:
    """The largest amount that a job's gang counts."""
    request = workload.request
    if request.groups:
        return sum(group.workers * group.shape.gpus for group in request.groups)
    shape, each = request.shape, request.shape.gpus
    if shape.gpu_memory:
        shares = [
            -(-shape.gpu_memory * 1000 // n.gpu_memory)
            for n in snapshot.nodes
            if n.gpu_memory and n.gpus and n.gpu_memory >= shape.gpu_memory and may_stand(snapshot, workload, n)
        ]
        each = max(shares, default=1000)
    return request.min_workers * each


def allowed(after: Snapshot, workload: Workload) -> bool:
    """Whether limits (and guarantees, if non-preemptible) allow it beside current holdings."""
    asked = gang_amount(after, workload)
    for project in ancestors(after, workload.request.project):
        if project.limit is not None and held(after, project.name) + asked > project.limit:
            return False
        fixed = held(non_preemptible_only(after), project.name)
        if not workload.request.preemptible and project.guaranteed is not None and fixed + asked > project.guaranteed:
            return False
        if not _allowed_beside(after, workload, project):
            return False
    return True


def _allowed_beside(after: Snapshot, workload: Workload, project: Project) -> bool:
    request = workload.request
    asked = beside([(WorkerPlacement(NodeName("")), shape) for shape in list(request.shapes)[: request.min_workers]])
    for resource, bound in bounds(project).items():
        there = held_beside(after, project.name)[resource] + asked[resource]
        if bound.limit is not None and asked[resource] and there > bound.limit:
            return False
        fixed = held_beside(non_preemptible_only(after), project.name)[resource] + asked[resource]
        if bound.guaranteed is not None and asked[resource] and not request.preemptible and fixed > bound.guaranteed:
            return False
    return True


def partition_full(after: Snapshot, workload: Workload, node: Node) -> bool:
    """Whether a limit in a partition keeps a job from a node. Stopping workloads count until they end."""
    asked = gang_amount(after, workload)
    for project in ancestors(after, workload.request.project):
        for quota in project.quotas:
            nodes = {n.name for n in after.nodes if quota.covers(n)}
            if quota.limit is not None and quota.covers(node):
                there = held(within(after, nodes), project.name, releasing=True)
                if there + asked > quota.limit:
                    return True
    return False
