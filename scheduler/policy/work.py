"""The workloads as the policy handles them: what is asked for, and who stands where.

`Ask` is everything about a request that matters to where and when it may start, without who sent it; equal asks are one
object, and jobs of one project with one ask are judged once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.model import Milli, Request, WorkerPlacement, Workload
from scheduler.policy.demands import Demand, amount_of
from scheduler.policy.projects import ProjectState
from scheduler.policy.types import Decision

Try = tuple[int, bool]
"""A set of nodes, and whether a gang is tried on one node of them only."""


@dataclass(eq=False, slots=True)
class Ask:
    """What a job asks for. `each` is what one worker counts against quotas, `least` what the gang does.

    Asks of one `kind` fit or don't fit alike. `masks` are the nodes that qualify at all, as they are wished for; `qualifies`
    is all of them. `tries` are the same in the order in which they are tried, each wish by throughput.

    A gang of several groups has an ask for each as its `groups`, and in `demands` what each rank needs; `demand` and `each`
    are then those of its largest worker.
    """

    kind: int
    demand: Demand
    workers: int
    gang: int
    each: Milli
    least: Milli
    preemptible: bool
    priority: int
    require: str | None
    prefer: str | None
    masks: tuple[int, ...]
    tries: tuple[Try, ...]
    qualifies: int
    spread: bool
    request: Request
    groups: tuple[Ask, ...] = ()
    demands: tuple[Demand, ...] = ()

    @property
    def largest_first(self) -> list[tuple[int, Ask]]:
        """Its groups (itself, where it has none), numbered, in the order in which they are placed."""
        groups = enumerate(self.groups or (self,))
        return sorted(groups, key=lambda entry: (-entry[1].each, -entry[1].demand.cpus, entry[0]))

    @property
    def whole(self) -> int:
        """The whole GPUs that its gang needs."""
        return (
            sum([demand.whole for demand in self.demands]) if self.demands else self.demand.whole * self.gang
        )

    def demands_of(self, count: int) -> tuple[Demand, ...]:
        """What each of the first `count` ranks needs."""
        return self.demands[:count] if self.demands else (self.demand,) * count


def by_rank(found: Mapping[int, Sequence[WorkerPlacement]]) -> list[WorkerPlacement]:
    """The workers of numbered groups, in the order of their ranks."""
    return [worker for number in sorted(found) for worker in found[number]]


Options = Sequence[tuple[ProjectState, Ask]]


class Work:
    """One workload. `placement` is where it stands later, `leaves` whether it is on its way out,
    `moved` whether it goes from where it stood to `placement`.

    A session has no project: it counts against its user's quota, not against a project. A job that may stand in several
    parts of the pool has in `options` the project and the ask for each, the best first, and begins with the first. `told` is
    what was told of it last.
    """

    __slots__ = (
        "amount", "ask", "demands", "id", "moved", "options", "placement", "preemptible", "priority",
        "project", "releasing", "told", "urgency", "workload",
    )  # fmt: skip

    def __init__(
        self, workload: Workload, project: ProjectState | None, ask: Ask, options: Options = ()
    ) -> None:
        self.workload = workload
        self.id = workload.id
        self.project = project
        self.ask = ask
        self.options = options
        self.placement: tuple[WorkerPlacement, ...] = workload.placement if workload.running else ()
        self.demands = ask.demands
        self.amount = amount_of(self.placement)
        self.releasing = workload.stopping
        self.moved = False
        self.priority = ask.priority
        self.preemptible = ask.preemptible
        self.told: Decision | None = None
        self.urgency = (-ask.priority, workload.submitted, workload.id)

    def tell(self, decision: Decision) -> Decision:
        """Note what was told of it, for the plans to come."""
        self.told = decision
        return decision

    def stands_at(self, placement: tuple[WorkerPlacement, ...]) -> None:
        """Some of its nodes are no more."""
        if self.demands:
            left = dict(zip(map(id, self.placement), self.demands, strict=False))
            self.demands = tuple(left[id(worker)] for worker in placement)
        self.placement = placement
        self.amount = amount_of(placement)

    @property
    def standing(self) -> Iterator[tuple[WorkerPlacement, Demand]]:
        """Each worker with what it needs."""
        if self.demands:
            return zip(self.placement, self.demands, strict=False)
        demand = self.ask.demand
        return ((worker, demand) for worker in self.placement)

    @property
    def saved(self) -> float | None:
        """When it last saved its state, or else when it started."""
        workload = self.workload
        return workload.started if workload.checkpointed is None else workload.checkpointed

    def protected_until(self) -> float:
        """Until when it may not be preempted."""
        started, least = self.workload.started, self.workload.request.min_runtime
        return float("-inf") if started is None or least <= 0 else started + least
