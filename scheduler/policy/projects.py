"""The project tree: what each project is guaranteed, what it is due, and what it has allocated.

Amounts are thousandths of a GPU. A project's allocation counts for each of its ancestors, too. `allocated` is as it
will be once the plan is carried out, `non_preemptible` is its part that can't be preempted, and `releasing` is what is
held only until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from scheduler.model import ONE, Milli, Project, ProjectName, Quota, UserName, cpu_count, memory_size
from scheduler.policy.demands import UNBOUNDED, Beside
from scheduler.policy.quotas import REMAINDER, PartitionKey
from scheduler.policy.sets import NO_NODES, NodeSet


class QuotaState:
    """A limit on what a project may hold of the nodes `mask`, and what it holds there, releasing workloads included."""

    __slots__ = ("allocated", "mask", "quota")

    def __init__(self, quota: Quota, mask: NodeSet) -> None:
        self.quota = quota
        self.mask = mask
        self.allocated: Milli = 0

    @property
    def limit(self) -> Milli:
        return UNBOUNDED if self.quota.limit is None else self.quota.limit

    @property
    def covers(self) -> PartitionKey:
        """The node pool and the type of GPU that it limits."""
        return self.quota.node_pool, self.quota.gpu_type

    def frozen(self) -> QuotaState:
        twin = QuotaState(self.quota, self.mask)
        twin.allocated = self.allocated
        return twin


class ChangedProjects:
    """The projects of one partition whose `sums` or whose demand (`demands`) have changed since these were last
    read."""

    __slots__ = ("demands", "sums")

    def __init__(self, projects: Iterable[ProjectState] = ()) -> None:
        self.sums = set(projects)
        self.demands = set(self.sums)


class ProjectState:
    """One project in one partition of the pool, its place in the tree and its sums.

    `overflow` is what its jobs ask for here because they can't have it in a partition that they prefer. `kept` is its
    fair share if part of what it holds did not count as recent use.

    `on_levels` is the part of the demand on each service level, where the surplus is divided by these, else empty.
    `wants` is `wanted` without the jobs above each level.

    Where jobs wait in the order `served`, `held` is what each user holds of it and `returns` counts how often somebody
    gave something back.

    `beside` has its state for CPUs and memory, in the whole pool, where nodes or projects declare any.
    """

    __slots__ = (
        "allocated", "beside", "changed", "changes", "children", "created", "demand", "depth", "guarantee", "held",
        "kept", "limit", "name", "non_preemptible", "on_levels", "order", "overflow", "parent", "partition", "path",
        "priority", "quotas", "releasing", "returns", "share", "usage", "wanted", "wants", "weight",
    )  # fmt: skip

    def __init__(self, project: Project, parent: ProjectState | None) -> None:
        self.name = project.name
        self.parent = parent
        self.path: tuple[ProjectState, ...] = (self, *(parent.path if parent else ()))
        self.depth = len(self.path)
        self.children: list[ProjectState] = []
        self.guarantee = UNBOUNDED if project.guaranteed is None else project.guaranteed
        self.limit = UNBOUNDED if project.limit is None else project.limit
        self.weight = project.weight if project.weight is not None else project.guaranteed or ONE
        self.priority = project.priority
        self.created = project.created
        self.usage = 0.0
        self.partition: PartitionKey = REMAINDER
        self.demand: Milli = 0
        self.on_levels: list[Milli] = []
        self.overflow: Milli = 0
        self.wants: list[Milli] = []
        self.wanted: Milli = 0
        self.share: Milli = 0
        self.kept: Milli = 0
        self.allocated: Milli = 0
        self.non_preemptible: Milli = 0
        self.releasing: Milli = 0
        self.quotas: tuple[QuotaState, ...] = ()
        self.order = project.order
        self.held: dict[UserName | None, Milli] | None = None
        self.returns = 0
        self.beside: tuple[ResourceState, ...] = ()
        self.changes = project.changes
        self.changed: ChangedProjects = ChangedProjects() if parent is None else parent.changed

    def guarantee_at(self, at: float) -> Milli:
        """What it will be guaranteed, as far as changes are known."""
        known = [change.guaranteed for change in self.changes if change.at <= at]
        if not known:
            return self.guarantee
        return UNBOUNDED if known[-1] is None else known[-1]

    @property
    def due(self) -> Milli:
        """What the project may count on: the greater of guarantee and fair share, within its limit.

        A guarantee without bound goes as far as what the parent is due.
        """
        if self.guarantee >= UNBOUNDED and self.parent is not None:
            return min(self.limit, self.parent.due)
        return min(self.limit, max(self.guarantee, self.share))

    @property
    def never_reclaimed(self) -> Milli:
        """What others can't reclaim, whatever the fair shares are."""
        return 0 if self.guarantee >= UNBOUNDED else min(self.limit, self.guarantee)

    @property
    def kept_from_reclaim(self) -> Milli:
        """What others can't reclaim up to their fair shares: its due, or what `kept` spares it."""
        return max(self.due, min(self.limit, self.kept))

    def frozen(self) -> ProjectState:
        """A copy that does not change any more, without its place in the tree."""
        twin = ProjectState.__new__(ProjectState)
        twin.name, twin.guarantee, twin.limit = self.name, self.guarantee, self.limit
        twin.share, twin.allocated, twin.non_preemptible = self.share, self.allocated, self.non_preemptible
        twin.demand = self.demand
        twin.partition = self.partition
        twin.quotas = tuple([quota.frozen() for quota in self.quotas])
        twin.beside = tuple([state.frozen_beside() for state in self.beside])
        return twin

    def allocate(self, amount: Milli, non_preemptible: bool) -> None:
        """Hold `amount` more (or less, where it is negative)."""
        self.changed.sums.update(self.path)
        for project in self.path:
            project.allocated += amount
        if non_preemptible:
            for project in self.path:
                project.non_preemptible += amount

    def ask(self, amount: Milli) -> None:
        """Its jobs ask for `amount` more (or less)."""
        self.changed.sums.update(self.path)
        self.changed.demands.update(self.path)
        for project in self.path:
            project.demand += amount

    def allocate_to(self, user: UserName | None, amount: Milli) -> None:
        """A user holds `amount` more (or less) of a project whose jobs wait in the order `served`."""
        assert self.held is not None
        self.held[user] = self.held.get(user, 0) + amount
        self.returns += amount < 0

    def allocate_beside(self, held: Beside, sign: int, non_preemptible: bool) -> None:
        """Hold more CPUs and memory (or with -1 less)."""
        for state in self.beside:
            if held[state.index]:
                state.allocate(sign * held[state.index], non_preemptible)

    def allocate_releasing_beside(self, held: Beside, sign: int) -> None:
        """Hold them until the releasing workloads are gone."""
        for state in self.beside:
            if held[state.index]:
                state.allocate_releasing(sign * held[state.index])

    def allocate_releasing(self, amount: Milli) -> None:
        """Hold `amount` more (or less) until the releasing workloads are gone."""
        for project in self.path:
            project.releasing += amount

    def nodes_at_limit(self, amount: Milli) -> NodeSet:
        """The nodes on which `amount` more would exceed a limit of the path."""
        nodes = NO_NODES
        for project in self.path:
            for quota in project.quotas:
                if quota.allocated + amount > quota.limit:
                    nodes |= quota.mask
        return nodes

    def over_limit(self, amount: Milli) -> ProjectState | None:
        """The project of the path whose limit `amount` more would exceed."""
        for project in self.path:
            if project.allocated + amount > project.limit:
                return project
        return None

    def over_guarantee(self, amount: Milli) -> ProjectState | None:
        """The project of the path whose guarantee `amount` more that can't be preempted would exceed."""
        for project in self.path:
            if project.non_preemptible + amount > project.guarantee:
                return project
        return None

    def over_limit_beside(self, asked: Beside) -> bool:
        """Whether more CPUs and memory would exceed a limit of the path."""
        return any(asked[state.index] and state.over_limit(asked[state.index]) is not None for state in self.beside)

    def over_guarantee_beside(self, asked: Beside) -> bool:
        """Whether, by what can't be preempted, they would exceed a declared guarantee of the path."""
        return any(asked[state.index] and state.over_guarantee(asked[state.index]) is not None for state in self.beside)

    def due_beside(self, asked: Beside) -> bool:
        """Whether the project may take back some of the CPUs or the memory asked for."""
        return any(
            0 < asked[state.index] <= max(state.guarantee, state.share) - state.allocated for state in self.beside
        )


class Resource(StrEnum):
    """What workers need besides GPUs."""

    CPUS = "cpus"
    MEMORY = "memory"

    def in_words(self, amount: int) -> str:
        """ "4 CPUs", "16 GiB of memory"."""
        return cpu_count(amount) if self is Resource.CPUS else f"{memory_size(amount)} of memory"

    def in_units(self, amounts: Mapping[str, int]) -> dict[str, float]:
        """CPUs, or GiB of memory."""
        unit = ONE if self is Resource.CPUS else 1024
        return {name: amount / unit for name, amount in amounts.items()}


class ResourceState(ProjectState):
    """The state of a project's CPUs (thousandths) or memory (MiB): `index` is the resource's in `Beside`.

    A guarantee that is `declared` also bounds what can't be preempted. Another follows that of the GPUs.
    """

    __slots__ = ("declared", "index", "resource")

    def __init__(self, project: Project, parent: ResourceState | None, resource: Resource) -> None:
        super().__init__(project, parent)
        self.resource = resource
        self.index = list(Resource).index(resource)
        self.declared = project.guaranteed is not None

    def over_guarantee(self, amount: Milli) -> ProjectState | None:
        for step in self.path:
            if isinstance(step, ResourceState) and step.declared and step.non_preemptible + amount > step.guarantee:
                return step
        return None

    def frozen_beside(self) -> ResourceState:
        """As `frozen`."""
        twin = ResourceState.__new__(ResourceState)
        twin.name, twin.guarantee, twin.limit = self.name, self.guarantee, self.limit
        twin.allocated, twin.non_preemptible = self.allocated, self.non_preemptible
        twin.index, twin.resource, twin.declared = self.index, self.resource, self.declared
        return twin


def held_beside(states: Iterable[ResourceState]) -> Beside:
    """The CPUs and the memory that are allocated in all of these."""
    held = [0, 0]
    for state in states:
        held[state.index] += state.allocated
    return held[0], held[1]


State = TypeVar("State", bound=ProjectState)


def build_tree(projects: Iterable[Project]) -> dict[ProjectName, ProjectState]:
    return tree_of(projects, ProjectState)


def tree_of(projects: Iterable[Project], of: Callable[[Project, State | None], State]) -> dict[ProjectName, State]:
    """The state `of` every project, parents before their children, else in the order given."""
    by_name = {project.name: project for project in projects}
    tree: dict[ProjectName, State] = {}

    def add(project: Project) -> State:
        if project.name not in tree:
            above = by_name.get(project.parent) if project.parent is not None else None
            parent = add(above) if above is not None else None
            state = tree[project.name] = of(project, parent)
            if parent is not None:
                parent.children.append(state)
        return tree[project.name]

    for project in by_name.values():
        add(project)
    return tree


def sibling_ancestors(one: ProjectState, other: ProjectState) -> tuple[ProjectState, ProjectState]:
    """The ancestors of two different leaves (or the leaves themselves) that have the same parent."""
    if one.parent is other.parent:
        return one, other
    pairs = list(zip(reversed(one.path), reversed(other.path), strict=False))
    return next((mine, theirs) for mine, theirs in pairs if mine is not theirs)
