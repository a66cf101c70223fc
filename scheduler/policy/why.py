"""Why a job waits, told from how the pool stands at the end of the cycle.

Reasons are made when somebody asks: a plan for a hundred thousand jobs that wait is asked about a few of them. What
they are made from is copied, so a plan says the same for ever.
"""

from __future__ import annotations

from scheduler.model import ONE, Milli
from scheduler.policy import reasons
from scheduler.policy.intake import Intake
from scheduler.policy.nodes import Key, NodeState
from scheduler.policy.projects import ProjectState
from scheduler.policy.reasons import Blocked
from scheduler.policy.topology import NODE
from scheduler.policy.work import Ask


class Why:
    """The projects and the free GPUs at the end of a cycle; `kept` names who has reserved what would do for others."""

    def __init__(self, intake: Intake, kept: dict[tuple[str, Ask], str]) -> None:
        self._projects = {
            a: a.frozen() for partition in intake.partitions for a in partition.projects.values()
        }
        nodes = intake.state.nodes
        self._now: dict[Key, int] = dict(nodes.buckets[False])
        self._later: dict[Key, int] = dict(nodes.buckets[True])
        self._nodes = nodes
        self._topology = intake.topology
        self._train = intake.train
        self._kept = kept
        self._ever: dict[int, bool] = {}
        self._known: dict[tuple[ProjectState, Ask], Blocked] = {}
        self._before = intake.blocked

    def blocked(self, project: ProjectState, ask: Ask) -> Blocked:
        """What a job of this project that asks for this waits for."""
        line = (project, ask)
        found = self._known.get(line)
        if found is None:
            found = self._blocked(project.path, ask)
            if (before := self._before.get(line)) == found:
                found = before
            self._known[line] = self._before[line] = found
        return found

    def _blocked(self, place: tuple[ProjectState, ...], ask: Ask) -> Blocked:
        path = [self._projects[step] for step in place]
        project = path[0]
        if not ask.qualifies:
            if ask.request.gpu_types and not self._nodes.types.intersection(ask.request.gpu_types):
                return reasons.no_such_type(ask, anywhere=False)
            return reasons.never_fits(ask)
        if not self._could_ever(ask):
            return (
                reasons.never_fits(ask)
                if ask.require is None
                else reasons.no_domain(ask, ask.require, ever=False)
            )
        for step in path:
            if step.allocated + ask.least > step.limit:
                return reasons.at_limit(step, ask.least)
        full = [
            (step, quota)
            for step in path
            for quota in step.quotas
            if quota.allocated + ask.least > quota.limit
        ]
        elsewhere = ask.qualifies
        for _, quota in full:
            elsewhere &= ~quota.mask
        if full and (not elsewhere or free_gpus(self._now, elsewhere) < ask.least):
            return reasons.at_quota(*full[0], ask.least)
        for step in path:
            if not ask.preemptible and step.non_preemptible + ask.least > step.guarantee:
                return reasons.outside_guarantee(step, ask.least)
        free = free_gpus(self._now, ask.qualifies)
        still_free = free >= ask.least or ask.demand.partial
        if still_free and (project.name, ask) in self._kept:
            return reasons.reserved(ask, self._kept[project.name, ask], free)
        if ask.require is not None and self._fits_without_rule(ask):
            return reasons.no_domain(ask, ask.require)
        if ask.request.gpu_types and free < ask.least <= free_gpus(self._now, self._train):
            return reasons.no_such_type(ask, anywhere=True)
        if project.allocated + ask.least > project.share:
            return reasons.above_share(project, ask, free)
        return reasons.no_capacity(ask, free)

    def has_capacity(self, ask: Ask) -> bool:
        """Whether as many GPUs are free as it needs."""
        return free_gpus(self._now, ask.qualifies) >= ask.least

    def _could_ever(self, ask: Ask) -> bool:
        """Whether the gang would fit if all that qualifies for it were free."""
        if ask.groups:
            return all(self._could_ever(group) for group in ask.groups)
        found = self._ever.get(ask.kind)
        if found is None:
            places = [
                (_places(node, ask), bits & ask.qualifies) for node, bits in self._nodes.models.values()
            ]
            if ask.require == NODE:
                found = any(fits >= ask.gang for fits, bits in places if bits)
            else:
                domains = [-1] if ask.require is None else self._topology.domains(ask.require)
                found = any(
                    sum([fits * (bits & domain).bit_count() for fits, bits in places]) >= ask.gang
                    for domain in domains
                )
            self._ever[ask.kind] = found
        return found

    def _fits_without_rule(self, ask: Ask) -> bool:
        """Whether the gang would fit if it could stand anywhere."""
        if ask.groups:
            return all(self._fits_without_rule(group) for group in ask.groups)
        if not ask.demand.whole:
            return False
        fits = sum(
            [
                (bits & ask.qualifies).bit_count() * (key[0] // ask.demand.whole)
                for key, bits in self._later.items()
            ]
        )
        return fits >= ask.gang


def _places(node: NodeState, ask: Ask) -> int:
    """How many workers an empty node takes."""
    spec, demand = node.spec, ask.demand
    most = ask.gang
    if demand.whole:
        most = min(most, spec.gpus // demand.whole)
    elif demand.partial:
        most = min(most, spec.gpus * (ONE // demand.share_on(spec)))
    if demand.cpus and spec.cpus is not None:
        most = min(most, spec.cpus // demand.cpus)
    if demand.memory and spec.memory is not None:
        most = min(most, spec.memory // demand.memory)
    return most


def free_gpus(buckets: dict[Key, int], mask: int) -> Milli:
    """The whole GPUs that are free in nodes of `mask`."""
    return ONE * sum([(bits & mask).bit_count() * key[0] for key, bits in buckets.items()])
