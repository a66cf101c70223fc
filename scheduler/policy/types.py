"""What goes into the policy and what comes out: a snapshot and a plan.

The same snapshot gives the same plan, always: `now` comes in with it, and every order ends in a total tie-break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduler.model import MiB, Milli, Node, Pool, ProjectName, WorkerPlacement, Workload, WorkloadId
from scheduler.policy.blocking import Blocker, as_json
from scheduler.policy.projects import ResourceState, held_beside
from scheduler.policy.quotas import PartitionKey
from scheduler.policy.stoporder import NOBODY, StopOrder


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A pool at one instant. `workloads` are the sessions and jobs that hold GPUs or wait for them.

    `usage` is each project's recent use as a share of the pool (those below it included), for time-aware fairness.
    `changed` are the workloads that have changed since the snapshot that the same planner was given before, or are gone
    (`None`), so that it need not compare all of them; where it is `None`, any may have.
    """

    now: float
    pool: Pool
    nodes: tuple[Node, ...]
    workloads: tuple[Workload, ...]
    usage: Mapping[ProjectName, float] = field(default_factory=dict)
    changed: Mapping[WorkloadId, Workload | None] | None = field(default=None, compare=False, repr=False)


class Action(StrEnum):
    KEEP = "keep"
    START = "start"
    GROW = "grow"
    SHRINK = "shrink"
    MOVE = "move"
    STOP = "stop"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to one workload.

    `placement` is where it stands once the plan is carried out, also that of one that stops to go on there. `after`
    names those that must stop or shrink first (those already stopping included); where it is empty the GPUs are free
    now. `reason` is a sentence for people, `blocked_by` says for programs what it waits for; `position` counts from 1
    in its project's queue; `estimated_start` is a time, and `start_range` the earliest and the latest that are likely,
    where that is known.
    """

    action: Action
    reason: str = ""
    placement: tuple[WorkerPlacement, ...] = ()
    after: tuple[WorkloadId, ...] = ()
    blocked_by: Blocker | None = None
    position: int | None = None
    estimated_start: float | None = None
    start_range: tuple[float, float] | None = None

    @property
    def details(self) -> Mapping[str, Any]:
        """`blocked_by` as it is printed and sent; empty where nothing blocks."""
        return {} if self.blocked_by is None else as_json(self.blocked_by)


@dataclass(frozen=True, slots=True)
class ProjectFigures:
    """A project's amounts once the plan is carried out, and `could_start`: GPUs that one more job could start on now.

    `cpus` (thousandths) and `memory` are what its jobs hold that ask for any. Where the pool has several partitions,
    `partitions` has the amounts in each; what projects declare of CPUs or memory is counted there over all of them.
    """

    fair_share: Milli
    allocated: Milli
    demand: Milli
    could_start: Milli
    cpus: Milli = 0
    memory: MiB = 0
    partitions: Mapping[PartitionKey, ProjectFigures] = field(default_factory=dict)


def together(partitions: Mapping[PartitionKey, ProjectFigures], beside: Iterable[ResourceState]) -> ProjectFigures:
    """The amounts of a whole pool of several partitions, with those `beside` GPUs. A job runs in one of them."""
    each = partitions.values()
    cpus, memory = held_beside(beside)
    return ProjectFigures(
        fair_share=sum(figures.fair_share for figures in each),
        allocated=sum(figures.allocated for figures in each),
        demand=sum(figures.demand for figures in each),
        could_start=max(figures.could_start for figures in each),
        cpus=cpus,
        memory=memory,
        partitions=partitions,
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision for every workload of the snapshot, and when to plan again even if nothing changes (or never).

    `changes` are the decisions other than to stay as before or to wait. `stop_order` says who would be stopped next for
    other projects once the plan is carried out. `in_line` gives the jobs that waited before the plan: those that were
    first in line in each project, then the second ones, and so on.
    """

    decisions: Mapping[WorkloadId, Decision]
    projects: Mapping[ProjectName, ProjectFigures]
    again_at: float | None = None
    changes: Mapping[WorkloadId, Decision] = field(default_factory=dict)
    stop_order: StopOrder = field(default=NOBODY, compare=False, repr=False)
    in_line: Callable[[], Iterator[WorkloadId]] = field(default=lambda: iter(()), compare=False, repr=False)

    @property
    def promises(self) -> Mapping[WorkloadId, tuple[WorkerPlacement, ...]]:
        """The workloads that start when others have left, and where. The next plan gets them as
        `Workload.nomination`."""
        return {
            id: decision.placement
            for id, decision in self.changes.items()
            if decision.action is Action.START and decision.after
        }
