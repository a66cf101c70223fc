"""CPUs and memory: what each project is guaranteed of them, and what it is due.

A project that declares no guarantee for them has, for each GPU that it is guaranteed, what a node has for each of its
GPUs; where nodes differ, the node that has most. One with projects below it that declare some is guaranteed at least
what they are together. What a project is due of them follows its fair share of GPUs in the same way.

What projects declare holds for all partitions of the pool together. Where nobody declares anything of a resource, each
partition is shared out by itself, as its GPUs are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from scheduler.model import ONE, Bounds, Milli, Node, Pool, Project, ProjectName
from scheduler.policy.demands import UNBOUNDED
from scheduler.policy.nodes import NodeState
from scheduler.policy.partitions import Partition
from scheduler.policy.projects import Resource, ResourceState, tree_of
from scheduler.policy.sets import union


@dataclass(slots=True)
class ResourceTree:
    """The states of all projects for one resource in some partitions, parents before their children.

    `rate` is what comes with so many GPUs.
    """

    resource: Resource
    partitions: Sequence[Partition]
    states: dict[ProjectName, ResourceState]
    rate: tuple[int, int] = (0, 1)

    def of(self, gpus: Milli) -> int:
        """What comes with an amount of GPUs."""
        amount, by = self.rate
        return UNBOUNDED if gpus >= UNBOUNDED else gpus * amount // (by * ONE)

    def set_rate(self, nodes: Iterable[NodeState]) -> None:
        """Find what comes with a GPU of these nodes, and what projects are guaranteed thereby."""
        here = union(partition.nodes for partition in self.partitions)
        specs = [node.spec for node in nodes if node.bit & here and node.spec.gpus]
        rates = [(amount_on(spec, self.resource) or 0, spec.gpus) for spec in specs]
        self.rate = max(rates, key=lambda rate: rate[0] / rate[1], default=(0, 1))
        declared = {name for name, state in self.states.items() if state.declared}
        for name, state in reversed(self.states.items()):
            if state.declared:
                continue
            gpus = sum([partition.projects[name].guarantee for partition in self.partitions])
            state.guarantee = self.of(gpus)
            if not declared.isdisjoint([child.name for child in state.children]):
                declared.add(name)
                below = sum([child.guarantee for child in state.children])
                state.guarantee = max(state.guarantee, min(UNBOUNDED, below))

    def share_out(self) -> None:
        """Set the fair shares from those of GPUs."""
        for name, state in self.states.items():
            state.share = self.of(sum([partition.projects[name].share for partition in self.partitions]))


def build(pool: Pool, partitions: Sequence[Partition], nodes: Sequence[NodeState]) -> tuple[ResourceTree, ...]:
    """The trees of the resources that are in use; `nodes` are those for training. Projects get their states."""
    trees = []
    for partition in partitions:
        for project in partition.projects.values():
            project.beside = ()
    for resource in in_use(pool, nodes):
        together = any(_bounds(project, resource) != Bounds() for project in pool.projects)
        for covered in [partitions] if together else [[partition] for partition in partitions]:
            here = union(partition.nodes for partition in covered)
            if resource not in in_use(pool, [node for node in nodes if node.bit & here]):
                continue
            declared = [_with(project, _bounds(project, resource)) for project in pool.projects]
            tree = ResourceTree(resource, covered, tree_of(declared, partial(ResourceState, resource=resource)))
            for name, state in tree.states.items():
                state.partition = covered[0].key
                for each in covered:
                    each.projects[name].beside += (state,)
            tree.set_rate(nodes)
            trees.append(tree)
    return tuple(trees)


def in_use(pool: Pool, nodes: Sequence[NodeState]) -> list[Resource]:
    """The resources that projects declare or that come with GPUs; `nodes` are those for training."""
    return [
        resource
        for resource in Resource
        if any(node.spec.gpus and amount_on(node.spec, resource) is not None for node in nodes)
        or any(_bounds(project, resource) != Bounds() for project in pool.projects)
    ]


def amount_on(node: Node, resource: Resource) -> int | None:
    return node.cpus if resource is Resource.CPUS else node.memory


def _bounds(project: Project, resource: Resource) -> Bounds:
    return project.cpus if resource is Resource.CPUS else project.memory


def _with(project: Project, own: Bounds) -> Project:
    return replace(project, guaranteed=own.guaranteed, limit=own.limit, changes=())
