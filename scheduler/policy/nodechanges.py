"""Nodes that change between two plans: cordoned, used more or less by others, declared differently, new or gone.

What must hold: the plans that follow are those of a new planner with these nodes. Plans depend on the order of the
nodes, so it must stay the same, with new nodes last. If it does not, a new planner is needed. The same is true if a
node comes, leaves or is declared differently in a pool whose projects have quotas for parts of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduler.model import Node, NodeName
from scheduler.policy.nodeindex import NodeIndex
from scheduler.policy.partitions import Partition, usable
from scheduler.policy.plannerstate import PlannerState
from scheduler.policy.sets import FIRST_NODE, NodeSet, union
from scheduler.policy.topology import Topology
from scheduler.policy.workloads import WorkloadState

_LEFT = 16
"""The most places of removed nodes that are kept, or as many as there are nodes."""


def change_nodes(planner: PlannerState, nodes: Sequence[Node]) -> int | None:
    """Update the nodes of a pool. Returns how many workloads were read again; None if a new planner is needed."""
    index = planner.state.nodes
    places = _places(index, nodes)
    if places is None:
        return None
    specs, there = dict(zip(places, nodes, strict=True)), set(places)
    gone = [node.index for node in index.by_name.values() if node.index not in there]
    changed = {place: spec for place, spec in specs.items() if _differs(index, place, spec)}
    redeclared = [place for place, spec in changed.items() if _redeclared(index, place, spec)]
    if (redeclared or gone) and (len(planner.partitions) > 1 or planner.state.limited):
        return None
    eligibility = union(
        FIRST_NODE << place
        for place in (*gone, *changed)
        if place in gone or place in redeclared or index.all[place].spec.schedulable != changed[place].schedulable
    )
    names = {specs[place].name for place in redeclared} | {index.all[place].name for place in gone}
    moved = [job.workload for job in planner.workloads.values() if _depends(job, names)] if eligibility else []
    for workload in moved:
        planner.remove(workload.id)
    _count(planner, (*changed, *gone), -1)
    index.change(changed, gone)
    _count(planner, (*changed, *gone), 1)
    if redeclared or gone:
        planner.count_resources()
    if eligibility:
        if redeclared or gone:
            planner.topology = Topology(list(index.by_name.values()), planner.pool.topology)
        planner.request_classes.refresh(eligibility, [partition.nodes for partition in planner.partitions])
        others = planner.rank_again()
        for workload in others:
            planner.remove(workload.id)
        moved += others
    for workload in moved:
        planner.put(workload)
    return len(moved)


def _places(index: NodeIndex, nodes: Sequence[Node]) -> list[int] | None:
    """The place of each node in the index, new ones last. None if the order of the nodes has changed."""
    places, last, end = list[int](), -1, len(index.all)
    for node in nodes:
        known = index.by_name.get(node.name)
        place = end if known is None else known.index
        if place <= last:
            return None
        end += place == end
        last = place
        places.append(place)
    return places if end <= 2 * len(nodes) + _LEFT else None


def _differs(index: NodeIndex, place: int, spec: Node) -> bool:
    return place >= len(index.all) or (index.all[place].spec is not spec and index.all[place].spec != spec)


def _redeclared(index: NodeIndex, place: int, spec: Node) -> bool:
    """Whether more differs than its foreign use and whether it is cordoned."""
    if place >= len(index.all):
        return True
    before = index.all[place].spec
    return replace(before, foreign=spec.foreign, failing=spec.failing, schedulable=spec.schedulable) != spec


def _depends(job: WorkloadState, names: set[NodeName]) -> bool:
    """Whether a workload runs on one of these nodes, is nominated for one, or has an amount that depends on eligible
    nodes."""
    workload, request = job.workload, job.request
    return any(each.demand.gpu_memory for each in (request, *request.groups)) or any(
        worker.node in names for worker in (*workload.placement, *workload.nomination)
    )


def _count(planner: PlannerState, places: Sequence[int], sign: int) -> None:
    """Count nodes in their partitions (1), or no longer (-1)."""
    index = planner.state.nodes
    for place in places:
        node = index.all[place] if place < len(index.all) else None
        if node is None or node.name not in index.by_name:
            continue
        trains = planner.trains(node)
        partition = _partition(planner, node.bit)
        partition.nodes |= node.bit
        if sign < 0 and len(planner.partitions) == 1:
            partition.nodes ^= node.bit
        if trains:
            partition.capacity += sign * usable(node.spec)
        planner.train &= ~node.bit
        if trains and node.spec.schedulable and sign > 0:
            planner.train |= node.bit


def _partition(planner: PlannerState, bit: NodeSet) -> Partition:
    """The partition of a node; a pool of one partition has new nodes, too."""
    if len(planner.partitions) == 1:
        return planner.partitions[0]
    return next(partition for partition in planner.partitions if partition.nodes & bit)
