"""The partitions of the pool, and what projects are guaranteed in each.

A partition is the GPUs of a node pool, of a type, or of a type in a node pool, of which something is guaranteed to some
project. It is shared out by itself: only guarantees in the partition count there. All other GPUs are the remainder, to
which the projects' own `guaranteed` applies; where no quota guarantees anything, the remainder is the whole pool. A
node belongs to the partition that names it most exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler.model import Milli, Node, Project, ProjectName

PartitionKey = tuple[str | None, str | None]
"""Names a partition: by its node pool, its type of GPU, or both."""

REMAINDER: PartitionKey = (None, None)


def partition_keys(projects: Sequence[Project]) -> tuple[PartitionKey, ...]:
    """The remainder first, then the other partitions, the most exactly named first."""
    named = {
        (quota.node_pool, quota.gpu_type)
        for project in projects
        for quota in project.quotas
        if quota.guaranteed is not None
    }
    return REMAINDER, *sorted(named, key=lambda key: (key.count(None), key[0] is None, str(key)))


def partition_of(node: Node, partitions: Collection[PartitionKey]) -> PartitionKey:
    """The partition to which the GPUs of a training node belong."""
    its = ((node.node_pool, node.gpu_type), (node.node_pool, None), (None, node.gpu_type))
    return next((key for key in its if key in partitions), REMAINDER)


def guarantees(key: PartitionKey, projects: Sequence[Project]) -> dict[ProjectName, Milli | None]:
    """What each project is guaranteed there. A project without a quota for the partition has the sum of its
    children's."""
    if key == REMAINDER:
        return {project.name: project.guaranteed for project in projects}
    said = {
        project.name: quota.guaranteed
        for project in projects
        for quota in project.quotas
        if (quota.node_pool, quota.gpu_type) == key and quota.guaranteed is not None
    }
    below: dict[ProjectName, list[ProjectName]] = {}
    for project in projects:
        if project.parent is not None:
            below.setdefault(project.parent, []).append(project.name)

    def of(name: ProjectName) -> Milli:
        return said[name] if name in said else sum([of(child) for child in below.get(name, ())])

    return {project.name: of(project.name) for project in projects}


def in_words(key: PartitionKey) -> str:
    """ " of type A100 in node pool fast"; nothing for the remainder."""
    node_pool, gpu_type = key
    return (f" of type {gpu_type}" if gpu_type else "") + (f" in node pool {node_pool}" if node_pool else "")
