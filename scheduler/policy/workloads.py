"""The workloads as the policy handles them: their requests and placements.

A `RequestClass` is everything about a request that affects where and when it may start, without its owner. Equal
requests are one object, and jobs of one project with the same request class are judged once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.model import (
    ONE,
    Milli,
    Request,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
    gpu_count,
    memory_size,
    number,
)
from scheduler.policy.demands import Beside, Demand, amount_of, beside
from scheduler.policy.projects import ProjectState
from scheduler.policy.sets import NodeSet
from scheduler.policy.types import Decision

UrgencyKey = tuple[int, Milli, int, float, int, WorkloadId]
"""The order of a project's waiting jobs: priority, what their user holds, service level, age, index in their array (as
a number: the text order of ids puts 10 before 2), id."""

Scope = tuple[NodeSet, bool]
"""A set of nodes to be tried, and whether a gang is tried on one node of them only."""


@dataclass(eq=False, slots=True)
class RequestClass:
    """The request of a job. `worker_amount` is what one worker counts against quotas, `gang_amount` what the gang
    counts; `gang_beside` is the CPUs and the memory that the gang needs.

    Requests of one `fit_class` fit or don't fit alike. `preferences` are the eligible nodes, one set for each preferred
    node pool; `eligible` is all of them. `scopes` are the same nodes in the order in which they are tried: those of
    each preference by throughput, then all together. `spec` is the first request of this class.

    A gang of several groups has a request class for each of its `groups`, and in `demands` what each rank needs;
    `demand` and `worker_amount` are then those of its largest worker.
    """

    fit_class: int
    demand: Demand
    workers: int
    gang_size: int
    worker_amount: Milli
    gang_amount: Milli
    preemptible: bool
    priority: int
    require: str | None
    prefer: str | None
    preferences: tuple[NodeSet, ...]
    scopes: tuple[Scope, ...]
    eligible: NodeSet
    spread: bool
    spec: Request
    groups: tuple[RequestClass, ...] = ()
    demands: tuple[Demand, ...] = ()
    gang_beside: Beside = (0, 0)

    @property
    def largest_first(self) -> list[tuple[int, RequestClass]]:
        """Its groups (itself, where it has none), numbered, in the order in which they are placed."""
        groups = enumerate(self.groups or (self,))
        return sorted(groups, key=lambda entry: (-entry[1].worker_amount, -entry[1].demand.cpus, entry[0]))

    @property
    def gang_gpus(self) -> int:
        """The whole GPUs that its gang needs."""
        return sum([demand.whole for demand in self.demands]) if self.demands else self.demand.whole * self.gang_size

    def demands_of(self, count: int) -> tuple[Demand, ...]:
        """What each of the first `count` ranks needs."""
        return self.demands[:count] if self.demands else (self.demand,) * count


def in_words(request: RequestClass) -> str:
    """ "8 GPUs", "4 workers of 8 GPUs each", "16 GiB of GPU memory"; of several groups each."""
    if request.groups:
        return " and ".join([in_words(group) for group in request.groups])
    demand = request.demand
    if demand.gpu_memory:
        worker = f"{memory_size(demand.gpu_memory)} of GPU memory"
    elif request.worker_amount:
        worker = gpu_count(request.worker_amount)
    elif demand.cpus:
        worker = f"{number(demand.cpus / ONE)} CPU{'' if demand.cpus == ONE else 's'}"
    else:
        worker = f"{memory_size(demand.memory)} of memory" if demand.memory else "a node"
    return worker if request.gang_size == 1 else f"{request.gang_size} workers of {worker} each"


def never_fits(project: ProjectState, request: RequestClass) -> bool:
    """Whether a limit is too small for such a job of this project or, if it can't be preempted, a guarantee."""
    return any(
        request.gang_amount > step.limit or (not request.preemptible and request.gang_amount > step.guarantee)
        for step in project.path
    )


def by_rank(found: Mapping[int, Sequence[WorkerPlacement]]) -> list[WorkerPlacement]:
    """The workers of numbered groups, in the order of their ranks."""
    return [worker for number in sorted(found) for worker in found[number]]


NEVER_PROTECTED = float("-inf")

Options = Sequence[tuple[ProjectState, RequestClass]]


class WorkloadState:
    """One workload. `placement` is where it is later, `releasing` whether it gives back what it holds,
    `moved` whether it goes from where it stood to `placement`.

    A session has no project: it counts against its user's quota, not against a project. A job that may stand in several
    parts of the pool has in `options` the project and the request for each, the best first, and begins with the first.
    `told` is its latest decision. Jobs wait in the order of their `urgency`; `level` is their service level. One that
    runs may not be preempted before `protected_until`.
    """

    __slots__ = (
        "amount", "demands", "id", "level", "moved", "options", "placement", "preemptible", "priority", "project",
        "protected_until", "releasing", "request", "told", "urgency", "workload",
    )  # fmt: skip

    def __init__(
        self, workload: Workload, project: ProjectState | None, request: RequestClass, options: Options = ()
    ) -> None:
        self.workload = workload
        self.id = workload.id
        self.project = project
        self.request = request
        self.options = options
        self.placement: tuple[WorkerPlacement, ...] = workload.placement if workload.running else ()
        self.demands = request.demands
        self.amount = amount_of(self.placement) if self.placement else 0
        self.releasing = workload.stopping
        self.moved = False
        self.priority = request.priority
        self.preemptible = request.preemptible
        self.protected_until = _protected_until(workload) if workload.running else NEVER_PROTECTED
        self.told: Decision | None = None
        self.level = 0
        self.urgency = self._urgency()

    def urgency_among(self, held: Mapping[UserName | None, Milli] | None) -> UrgencyKey:
        """Its urgency where users hold so much of its project; nothing or `None`: users are alike."""
        if not held:
            return self.urgency
        priority, _, level, submitted, index, id = self.urgency
        return priority, held.get(self.workload.request.user, 0), level, submitted, index, id

    def waits_on(self, level: int) -> None:
        """Set its service level, where its project's order uses it."""
        self.level = level
        self.urgency = self._urgency()

    def _urgency(self) -> UrgencyKey:
        workload, array = self.workload, self.workload.request.array
        return -self.priority, 0, self.level, workload.submitted, array.index if array else 0, self.id

    def tell(self, decision: Decision) -> Decision:
        """Record its decision, for later plans."""
        self.told = decision
        return decision

    def stands_at(self, placement: tuple[WorkerPlacement, ...]) -> None:
        """Some of its nodes are gone."""
        if self.demands:
            left = dict(zip(map(id, self.placement), self.demands, strict=False))
            self.demands = tuple(left[id(worker)] for worker in placement)
        self.placement = placement
        self.amount = amount_of(placement)

    @property
    def standing(self) -> Iterable[tuple[WorkerPlacement, Demand]]:
        """Each worker with what it needs."""
        if self.demands:
            return zip(self.placement, self.demands, strict=False)
        placement, demand = self.placement, self.request.demand
        if len(placement) == 1:  # most jobs: a list takes three times as long
            return ((placement[0], demand),)
        return [(worker, demand) for worker in placement]

    @property
    def wanted(self) -> Milli:
        """Its demand: what it holds, how far it may grow, or what it asks for."""
        if self.request.groups:
            return max(self.amount, self.request.gang_amount)
        return self.amount + max(0, self.request.workers - len(self.placement)) * self.request.worker_amount

    @property
    def beside(self) -> Beside:
        """The CPUs and the memory that it holds."""
        if self.demands:
            return beside(self.demands[: len(self.placement)])
        demand, count = self.request.demand, len(self.placement)
        return demand.cpus * count, demand.memory * count

    @property
    def saved(self) -> float | None:
        """When it last saved its state, or else when it started."""
        workload = self.workload
        return workload.started if workload.checkpointed is None else workload.checkpointed


def _protected_until(workload: Workload) -> float:
    started, least = workload.started, workload.request.min_runtime
    return NEVER_PROTECTED if started is None or least <= 0 else started + least
