"""Entry points: `decide` for one snapshot, `Planner` and `SnapshotPlanner` for a pool that changes little between
plans.

All make the same plan for the same pool. A planner is told what has changed and keeps the rest, so it does not read
everything again for each plan. A snapshot planner compares each snapshot with the one before and finds the changes
itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from scheduler.model import Node, Pool, ProjectName, Workload, WorkloadId
from scheduler.policy.cycle import Cycle
from scheduler.policy.nodechanges import change_nodes
from scheduler.policy.plannerstate import PlannerState
from scheduler.policy.play import stop_order
from scheduler.policy.types import Plan, Snapshot


def decide(snapshot: Snapshot) -> Plan:
    """The plan for a snapshot. The same snapshot gives the same plan."""
    with collector_at_rest():
        state = PlannerState(snapshot.pool, snapshot.nodes, snapshot.workloads)
        state.set_usage(snapshot.usage)
        plan = Cycle(state, snapshot.now).plan()
    return replace(plan, stop_order=stop_order(snapshot, plan.changes))


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Suspend garbage collection: a plan makes many objects that stay, and scanning them again and again doubles its
    time."""
    resting = not gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not resting:
            gc.enable()


class Planner:
    """Plans for one pool; another pool needs another planner.

    `read` is how many workloads the latest plan had to read: those that were new, had changed or were gone, those that
    changed nodes concern, or all of them.
    """

    def __init__(self, pool: Pool, nodes: Iterable[Node], workloads: Iterable[Workload] = ()) -> None:
        self._pool = pool
        self._state = PlannerState(pool, nodes, workloads)
        self._nodes: tuple[Node, ...] | None = None
        self.read = 0
        self._unread = len(self._state.workloads)
        self._changed: dict[WorkloadId, Workload | None] = {}

    def put(self, workload: Workload) -> None:
        """A workload is new, or has changed."""
        self._changed[workload.id] = workload

    def drop(self, id: WorkloadId) -> None:
        """A workload is gone."""
        self._changed[id] = None

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Some nodes have changed: these are all the nodes now."""
        self._nodes = tuple(nodes)

    def plan(self, now: float, usage: Mapping[ProjectName, float] | None = None) -> Plan:
        """The plan at an instant, when projects have used so much of the pool recently (as `Snapshot.usage` has it).

        The planner does not assume that the plan is carried out: report what was done with `put`.
        """
        with collector_at_rest():
            self._take_in()
            self._state.set_usage(usage or {})
            with self._state.state.trial():
                return Cycle(self._state, now).plan()

    def _take_in(self) -> None:
        """Apply the changes, those first that give GPUs back: a new workload may stand where others stood."""
        self.read, self._unread = self._unread + len(self._changed), 0
        for id in self._changed:
            self._state.remove(id)
        if self._nodes is not None:
            nodes, self._nodes = self._nodes, None
            read = change_nodes(self._state, nodes)
            if read is None:
                workloads = [job.workload for job in self._state.workloads.values()]
                self._state = PlannerState(self._pool, nodes, workloads)
                read = len(workloads)
            self.read += read
        for workload in self._changed.values():
            if workload is not None:
                self._state.put(workload)
        self._changed.clear()


class SnapshotPlanner:
    """Decides one snapshot after another, as `decide` does. Its plans stay as they are when the next one is made.

    `read` is how many workloads the latest plan had to read, as `Planner.read` says.
    """

    def __init__(self) -> None:
        self.read = 0
        self._planner: Planner | None = None
        self._pool = Pool()
        self._nodes: tuple[Node, ...] = ()
        self._workloads: dict[WorkloadId, Workload] = {}

    def __call__(self, snapshot: Snapshot) -> Plan:
        planner = self._planner
        self._planner = None  # should this fail, the next begins anew
        workloads = {workload.id: workload for workload in snapshot.workloads}
        if planner is None or self._pool != snapshot.pool:
            planner = Planner(snapshot.pool, snapshot.nodes, snapshot.workloads)
        else:
            if self._nodes != snapshot.nodes:
                planner.set_nodes(snapshot.nodes)
            for id in self._workloads.keys() - workloads.keys():
                planner.drop(id)
            for id, workload in workloads.items():
                before = self._workloads.get(id)
                if before is not workload and before != workload:
                    planner.put(workload)
        self._pool, self._nodes = snapshot.pool, snapshot.nodes
        plan = planner.plan(snapshot.now, snapshot.usage)
        order = stop_order(snapshot, plan.changes)
        plan = replace(plan, decisions=dict(plan.decisions), stop_order=order)
        self._planner, self._workloads, self.read = planner, workloads, planner.read
        return plan
