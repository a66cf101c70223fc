"""The partitions of the pool with their nodes, each with the state of every project.

A project's own limit holds for all partitions together, the limits of its quotas for the nodes that they cover.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.model import ONE, Milli, Node, Pool, Project, ProjectName, Quota
from scheduler.policy import quotas
from scheduler.policy.nodes import NodeState
from scheduler.policy.projects import ChangedProjects, ProjectState, QuotaState, build_tree
from scheduler.policy.quotas import PartitionKey
from scheduler.policy.sets import ALL_NODES, NO_NODES, NodeSet, union


@dataclass(eq=False, slots=True)
class Partition:
    """`nodes` is its nodes, `capacity` the GPUs of those that take work, `roots` the projects without a parent."""

    key: PartitionKey
    projects: dict[ProjectName, ProjectState]
    roots: list[ProjectState]
    changed: ChangedProjects
    nodes: NodeSet = NO_NODES
    capacity: Milli = 0


def build_partitions(
    pool: Pool, nodes: Sequence[NodeState], trains: Callable[[NodeState], bool]
) -> tuple[Partition, ...]:
    """The remainder first. Nodes that are not for training belong to it: they may be lent."""
    partitions = {key: _open(key, pool.projects) for key in quotas.partition_keys(pool.projects)}
    for node in nodes:
        partition = partitions[quotas.partition_of(node.spec, partitions) if trains(node) else quotas.REMAINDER]
        partition.nodes |= node.bit
        if trains(node):
            partition.capacity += usable(node.spec)
    for project in pool.projects:
        limits = tuple(_limits(project, partitions, nodes))
        for partition in partitions.values():
            partition.projects[project.name].quotas = limits
    return tuple(partitions.values())


def usable(node: Node) -> Milli:
    """The GPUs of a node that the projects can count on: none of a cordoned one, nor what others use."""
    return max(0, node.gpus * ONE - node.foreign.amount) if node.schedulable else 0


def _open(key: PartitionKey, projects: Sequence[Project]) -> Partition:
    guaranteed = quotas.guarantees(key, projects)
    tree = build_tree(
        [
            replace(
                project,
                guaranteed=guaranteed[project.name],
                limit=_limit(project, key),
                changes=project.changes if key == quotas.REMAINDER else (),
            )
            for project in projects
        ]
    )
    changed = ChangedProjects(tree.values())
    for project in tree.values():
        project.partition, project.changed = key, changed
    return Partition(key, tree, [project for project in tree.values() if project.parent is None], changed)


def _limit(project: Project, key: PartitionKey) -> Milli | None:
    """The most that a project may hold of a partition."""
    own = [quota.limit for quota in project.quotas if (quota.node_pool, quota.gpu_type) == key]
    return min([limit for limit in (project.limit, *own) if limit is not None], default=None)


def _limits(
    project: Project, partitions: Mapping[PartitionKey, Partition], nodes: Iterable[NodeState]
) -> Iterable[QuotaState]:
    """The limits of a project that are not those of one of its partitions alone."""
    if len(partitions) > 1 and project.limit is not None:
        yield QuotaState(Quota(limit=project.limit), ALL_NODES)
    for quota in project.quotas:
        mask = union(node.bit for node in nodes if quota.covers(node.spec))
        partition = partitions.get((quota.node_pool, quota.gpu_type))
        if quota.limit is not None and (partition is None or partition.nodes != mask):
            yield QuotaState(quota, mask)
