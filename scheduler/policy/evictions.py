"""Evictions: the victims that a search may choose among, one at a time or by the class of equal rank."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from scheduler.model import Milli, NodeName, WorkerPlacement, WorkloadId
from scheduler.policy.candidates import ranked
from scheduler.policy.demands import Beside, Demand, beside
from scheduler.policy.nodecounts import NodeCounts
from scheduler.policy.nodes import NodeState
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState
from scheduler.policy.sets import NodeSet
from scheduler.policy.workloads import WorkloadState


class Floor(Enum):
    """Whether an eviction must leave the victim's project at its floor, or may cross it as the only way."""

    KEPT = auto()
    CROSSED = auto()


Losses = dict[ProjectState, Milli]
"""What projects lose in a trial that has not been carried out."""

NOTHING_LOST: Losses = {}


@dataclass(slots=True, eq=False)
class Eviction:
    """One victim, or with `worker` one surplus worker of an elastic job."""

    job: WorkloadState
    loss: float
    amount: Milli
    worker: WorkerPlacement | None = None

    @property
    def workers(self) -> tuple[WorkerPlacement, ...]:
        return self.job.placement if self.worker is None else (self.worker,)

    @property
    def standing(self) -> Iterable[tuple[WorkerPlacement, Demand]]:
        """Its workers, each with its needs."""
        return self.job.standing if self.worker is None else ((self.worker, self.job.request.demand),)

    @property
    def beside(self) -> Beside:
        """The CPUs and the memory that it gives back."""
        return self.job.beside if self.worker is None else beside((self.job.request.demand,))

    @property
    def gone(self) -> bool:
        """Whether it has been carried out already, or no longer can be."""
        if self.worker is None:
            return self.job.releasing or self.amount != self.job.amount
        return self.job.releasing or self.worker not in self.job.placement


def note_loss(losses: Losses, eviction: Eviction, sign: int = 1) -> None:
    """Count what the projects of an eviction lose (or with -1 no longer lose) by it."""
    project = eviction.job.project
    assert project is not None
    for step in project.path:
        losses[step] = losses.get(step, 0) + sign * eviction.amount
    if project.beside:
        given_back = eviction.beside
        for state in project.beside:
            if amount := given_back[state.index]:
                for step in state.path:
                    losses[step] = losses.get(step, 0) + sign * amount


def make(state: PoolState, eviction: Eviction) -> None:
    """Apply an eviction to the plan."""
    if eviction.worker is None:
        state.release(eviction.job)
    else:
        state.shrink(eviction.job, eviction.worker)


def by_importance(eviction: Eviction) -> tuple[int, float, WorkloadId]:
    """The lowest priority first, then the least work lost."""
    return eviction.job.priority, eviction.loss, eviction.job.id


FEW = 64
"""Up to this number of nodes, candidates are looked up by node instead of through all of their class."""


class VictimClass(ABC):
    """Evictions of equal rank, the one that loses the least work first."""

    @abstractmethod
    def each(self, nodes: NodeSet | None = None) -> Iterator[Eviction]:
        """All of them, or at least those on some nodes."""

    @abstractmethod
    def on(self, node: NodeState, jobs: Iterable[WorkloadState]) -> Iterable[Eviction]:
        """Those on one node, where `jobs` are the jobs there of the projects and the priority of the class."""

    @abstractmethod
    def count(self, counts: NodeCounts) -> None:
        """Add how many GPUs they hold on each node, or more."""


class Listed(VictimClass):
    """Evictions that were found one by one."""

    def __init__(self, state: PoolState, evictions: Sequence[Eviction]) -> None:
        self.state = state
        self.evictions = evictions

    def each(self, nodes: NodeSet | None = None) -> Iterator[Eviction]:
        return iter(self.evictions)

    def on(self, node: NodeState, jobs: Iterable[WorkloadState]) -> Iterable[Eviction]:
        return self._on_nodes.get(node.name, ())

    @cached_property
    def _on_nodes(self) -> dict[NodeName, list[Eviction]]:
        found: dict[NodeName, list[Eviction]] = {}
        for eviction in self.evictions:
            for name in {worker.node: None for worker in eviction.workers}:
                found.setdefault(name, []).append(eviction)
        return found

    def count(self, counts: NodeCounts) -> None:
        by_name = self.state.nodes.by_name
        for eviction in self.evictions:
            for worker in eviction.workers:
                counts.increase(by_name[worker.node].bit, len(worker.gpus))


class WholeJobs(VictimClass):
    """The jobs of some projects that have one priority, as far as they are `wanted` and may be stopped now."""

    def __init__(
        self,
        state: PoolState,
        projects: Sequence[ProjectState],
        priority: int,
        now: float,
        unprotected: Callable[[WorkloadState], bool],
        wanted: Callable[[Eviction], bool] | None = None,
    ) -> None:
        self.state = state
        self.projects = projects
        self.priority = priority
        self.now = now
        self.unprotected = unprotected
        self.wanted = wanted

    def each(self, nodes: NodeSet | None = None) -> Iterator[Eviction]:
        index, here = self.state.nodes, None
        count = len(index.all) if nodes is None else nodes.bit_count()
        if nodes is not None and count <= FEW:
            standing = [job for node in index.each(nodes) for job in self.state.standing[node.index].values()]
            own = [job for job in standing if job.priority == self.priority and job.project in self.projects]
            return iter(self._among(own))
        if nodes is not None and 2 * count < len(index.all):
            here = {node.name for node in index.each(nodes)}
        ranked = [self.state.candidates[project].by_loss(self.priority, self.now, here) for project in self.projects]
        evictions = (
            Eviction(job, loss, job.amount)
            for loss, _, _, _, job in (ranked[0] if len(ranked) == 1 else heapq.merge(*ranked))
            if self.unprotected(job)
        )
        return evictions if self.wanted is None else filter(self.wanted, evictions)

    def on(self, node: NodeState, jobs: Iterable[WorkloadState]) -> Iterable[Eviction]:
        return self._among(jobs)

    def _among(self, jobs: Iterable[WorkloadState]) -> list[Eviction]:
        """Those of some jobs of these projects and this priority, each once."""
        found = {
            job.id: ranked(job, self.now)
            for job in jobs
            if job.preemptible and job.workload.running and self.unprotected(job)
        }
        evictions = [Eviction(job, loss, job.amount) for loss, *_, job in sorted(found.values())]
        return evictions if self.wanted is None else list(filter(self.wanted, evictions))

    def count(self, counts: NodeCounts) -> None:
        for project in self.projects:
            counts.add(self.state.candidates[project].held(self.priority))
