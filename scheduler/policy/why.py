"""Why a job waits, from the state of the pool at the end of the cycle.

Reasons are made on demand: of a hundred thousand waiting jobs only a few are asked for. They are made from copies, so
the reasons of a plan stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model import ONE, Milli, ProjectName
from scheduler.policy.blocking import (
    AboveShare,
    AtLimit,
    AtResourceLimit,
    AvoidsNodes,
    Blocked,
    NeverFits,
    NoCapacity,
    NoDomain,
    NoGpuOfType,
    OutsideGuarantee,
    OutsideResourceGuarantee,
    PolicyBlocker,
    Reserved,
    blocked,
)
from scheduler.policy.intheway import InTheWay
from scheduler.policy.nodes import LATER, NOW, Key, NodeState
from scheduler.policy.plannerstate import PlannerState
from scheduler.policy.projects import ProjectState
from scheduler.policy.sets import ALL_NODES, NodeSet
from scheduler.policy.topology import NODE
from scheduler.policy.workloads import RequestClass, in_words


class Why:
    """The projects (`frozen`) and the free GPUs at the end of a cycle; `kept` names the jobs with reservations,
    `in_the_way` the blockers by guarantees that change."""

    def __init__(
        self,
        planner: PlannerState,
        frozen: Mapping[ProjectState, ProjectState],
        kept: dict[tuple[ProjectName, RequestClass], str],
        in_the_way: dict[tuple[ProjectName, RequestClass], InTheWay],
    ) -> None:
        self._projects = frozen
        nodes = planner.state.nodes
        self._now: dict[Key, NodeSet] = dict(nodes.buckets[NOW])
        self._later: dict[Key, NodeSet] = dict(nodes.buckets[LATER])
        self._nodes = nodes
        self._topology = planner.topology
        self._train = planner.train
        self._kept = kept
        self._in_the_way = in_the_way
        self._ever: dict[int, bool] = {}
        self._known: dict[tuple[ProjectState, RequestClass], Blocked] = {}
        self._before = planner.blocked

    def blocked(self, project: ProjectState, request: RequestClass) -> Blocked:
        """What a job of this project with this request waits for."""
        key = (project, request)
        found = self._known.get(key)
        if found is None:
            found = blocked(self._find(project.path, request))
            if (before := self._before.get(key)) == found:
                found = before
            self._known[key] = self._before[key] = found
        return found

    def _find(self, place: tuple[ProjectState, ...], request: RequestClass) -> PolicyBlocker:
        """The first blocker that applies, from permanent to temporary ones."""
        path = [self._projects[step] for step in place]
        project, asked, wants = path[0], request.gang_amount, in_words(request)
        gpu_types = request.spec.gpu_types
        if not request.eligible and gpu_types and not self._nodes.types.intersection(gpu_types):
            return NoGpuOfType(wants, gpu_types, exists=False)
        if not request.eligible or not self._could_ever(request):
            if request.spec.avoids:
                return AvoidsNodes(wants, asked, request.spec.avoids)
            if not request.eligible or request.require is None:
                return NeverFits(wants, asked)
            return NoDomain(wants, request.require, asked, ever=False)
        ruled_out = self._ruled_out(path, request)
        if ruled_out is not None:
            return ruled_out
        if (project.name, request) in self._in_the_way:
            return self._in_the_way[project.name, request]
        free = free_gpus(self._now, request.eligible)
        still_free = free >= asked or request.demand.partial
        if still_free and (project.name, request) in self._kept:
            return Reserved(wants, self._kept[project.name, request], asked, free)
        if request.require is not None and self._fits_without_rule(request):
            return NoDomain(wants, request.require, asked, ever=True)
        if gpu_types and free < asked <= free_gpus(self._now, self._train):
            return NoGpuOfType(wants, gpu_types, exists=True)
        if (asked or not project.beside) and project.allocated + asked > project.share:
            return AboveShare(wants, project.name, project.share, project.allocated, asked, free, project.partition)
        return NoCapacity(wants, asked, free, one_node=request.gang_size == 1 and request.demand.whole > 1)

    def _ruled_out(self, path: list[ProjectState], request: RequestClass) -> PolicyBlocker | None:
        """The limit or the guarantee of the path that forbids it."""
        asked = request.gang_amount
        for step in path:
            if step.allocated + asked > step.limit:
                return AtLimit(step.name, step.limit, step.allocated, asked, step.partition)
        full = [(step, quota) for step in path for quota in step.quotas if quota.allocated + asked > quota.limit]
        elsewhere = request.eligible
        for _, quota in full:
            elsewhere &= ~quota.mask
        if full and not self._has_place(request, elsewhere):
            step, quota = full[0]
            return AtLimit(step.name, quota.limit, quota.allocated, asked, quota.covers)
        if (beside := self._ruled_out_beside(path, request)) is not None:
            return beside
        for step in path:
            if not request.preemptible and step.non_preemptible + asked > step.guarantee:
                return OutsideGuarantee(step.name, step.guarantee, step.non_preemptible, asked, step.partition)
        return None

    def _ruled_out_beside(self, path: list[ProjectState], request: RequestClass) -> PolicyBlocker | None:
        """The limit or the guarantee of CPUs or memory that forbids it."""
        asked = request.gang_beside if path[0].beside else (0, 0)
        for step in path:
            for own in step.beside:
                amount, what = asked[own.index], own.resource
                if amount and own.allocated + amount > own.limit:
                    return AtResourceLimit(step.name, what, own.limit, own.allocated, amount)
                rest = own.guarantee - own.non_preemptible
                if own.declared and not request.preemptible and 0 < amount > rest:
                    return OutsideResourceGuarantee(step.name, what, own.guarantee, own.non_preemptible, amount)
        return None

    def _has_place(self, request: RequestClass, nodes: NodeSet) -> bool:
        """Whether one domain of these nodes has as many free GPUs as it needs, on nodes that are large enough."""
        least = request.gang_gpus if request.require == NODE else 0 if request.groups else request.demand.whole
        free = {key: bits for key, bits in self._now.items() if key[0] >= least}
        domains = [ALL_NODES] if request.require in (None, NODE) else self._topology.domains(request.require)
        places = [place for domain in domains if (place := nodes & domain)]
        return any(free_gpus(free, place) >= request.gang_amount for place in places)

    def has_capacity(self, request: RequestClass) -> bool:
        """Whether as many GPUs are free as it needs."""
        return free_gpus(self._now, request.eligible) >= request.gang_amount

    def _could_ever(self, request: RequestClass) -> bool:
        """Whether the gang would fit if all nodes that are eligible for it were idle."""
        if request.groups:
            return all(self._could_ever(group) for group in request.groups)
        found = self._ever.get(request.fit_class)
        if found is None:
            places = [(_places(node, request), bits & request.eligible) for node, bits in self._nodes.models.values()]
            if request.require == NODE:
                found = any(fits >= request.gang_size for fits, bits in places if bits)
            else:
                domains = [ALL_NODES] if request.require is None else self._topology.domains(request.require)
                found = any(
                    sum([fits * (bits & domain).bit_count() for fits, bits in places]) >= request.gang_size
                    for domain in domains
                )
            self._ever[request.fit_class] = found
        return found

    def _fits_without_rule(self, request: RequestClass) -> bool:
        """Whether the gang would fit if it could stand anywhere."""
        if request.groups:
            return all(self._fits_without_rule(group) for group in request.groups)
        if not request.demand.whole:
            return False
        fits = sum(
            [
                (bits & request.eligible).bit_count() * (key[0] // request.demand.whole)
                for key, bits in self._later.items()
            ]
        )
        return fits >= request.gang_size


def _places(node: NodeState, request: RequestClass) -> int:
    """How many workers an empty node takes."""
    spec, demand = node.spec, request.demand
    most = request.gang_size
    if demand.whole:
        most = min(most, spec.gpus // demand.whole)
    elif demand.partial:
        most = min(most, spec.gpus * (ONE // demand.share_on(spec)))
    if demand.cpus and spec.cpus is not None:
        most = min(most, spec.cpus // demand.cpus)
    if demand.memory and spec.memory is not None:
        most = min(most, spec.memory // demand.memory)
    return most


def free_gpus(buckets: dict[Key, NodeSet], mask: NodeSet) -> Milli:
    """The whole GPUs that are free in nodes of `mask`."""
    return ONE * sum([(bits & mask).bit_count() * key[0] for key, bits in buckets.items()])
