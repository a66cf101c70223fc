"""Which parts of the pool are shared out by themselves, and what projects are guaranteed in each.

A part is the GPUs of a node pool, of a type, or of a type in a node pool, of which something is guaranteed to some project.
There only what is guaranteed in that part counts. Everything else together is the rest, for which `guaranteed` of the
projects themselves stands; where nobody has a guarantee in a part, the rest is the whole pool. A node belongs to the part
that names it most exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler.model import Milli, Node, Project

Part = tuple[str | None, str | None]
"""The name of a part: its node pool, its type of GPU, or both."""

REST: Part = (None, None)


def parts_of(projects: Sequence[Project]) -> tuple[Part, ...]:
    """The rest first, then the parts that are shared out by themselves, those first that are named most exactly."""
    named = {
        (quota.node_pool, quota.gpu_type)
        for project in projects
        for quota in project.quotas
        if quota.guaranteed is not None
    }
    return REST, *sorted(named, key=lambda part: (part.count(None), part[0] is None, str(part)))


def part_of(node: Node, parts: Collection[Part]) -> Part:
    """The part to which the GPUs of a node for training belong."""
    its = ((node.node_pool, node.gpu_type), (node.node_pool, None), (None, node.gpu_type))
    return next((part for part in its if part in parts), REST)


def guarantees(part: Part, projects: Sequence[Project]) -> dict[str, Milli | None]:
    """What each project is guaranteed there. One of which nothing is said in a part has what those below it have."""
    if part == REST:
        return {project.name: project.guaranteed for project in projects}
    said = {
        project.name: quota.guaranteed
        for project in projects
        for quota in project.quotas
        if (quota.node_pool, quota.gpu_type) == part and quota.guaranteed is not None
    }
    below: dict[str, list[str]] = {}
    for project in projects:
        if project.parent is not None:
            below.setdefault(project.parent, []).append(project.name)

    def of(name: str) -> Milli:
        return said[name] if name in said else sum([of(child) for child in below.get(name, ())])

    return {project.name: of(project.name) for project in projects}


def words(part: Part) -> str:
    """ " of type A100 in node pool fast"; nothing for the rest."""
    node_pool, gpu_type = part
    return (f" of type {gpu_type}" if gpu_type else "") + (f" in node pool {node_pool}" if node_pool else "")
