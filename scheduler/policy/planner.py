"""Entry points: `decide` for one snapshot, `Planner` and `SnapshotPlanner` for a pool that changes little between
plans.

All make the same plan for the same pool. A planner is told what has changed and keeps the rest, so it does not read
everything again for each plan. A snapshot planner compares each snapshot with the one before and finds the changes
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduler.model import Node, Pool, ProjectName, Workload, WorkloadId
from scheduler.policy.collector import collector_at_rest
from scheduler.policy.cycle import Cycle
from scheduler.policy.decisions import Decisions
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
    concerned = [each for each in snapshot.workloads if each.running or each.id in plan.changes]
    return replace(plan, projects=dict(plan.projects), stop_order=stop_order(snapshot, concerned, plan.changes))


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
        """The plan at an instant, with the recent use of projects (as in `Snapshot.usage`).

        It must not be before that of the last plan: service levels only rise. The planner does not assume that the plan
        is carried out: report what was done with `put`.
        """
        with collector_at_rest():
            self._take_in()
            self._state.set_usage(usage or {})
            with self._state.state.trial():
                return Cycle(self._state, now).plan()

    def dissolve(self) -> None:
        """Release the workloads one by one: releasing a hundred thousand at once is one step of the interpreter, during
        which all other threads wait."""
        workloads = self._state.workloads
        self._state.waiting.clear()
        while workloads:
            workloads.popitem()

    def _take_in(self) -> None:
        """Apply the changes, those first that give GPUs back: a new workload may stand where others stood."""
        self.read, self._unread = self._unread + len(self._changed), 0
        for id, workload in list(self._changed.items()):
            if workload is not None and self._state.renew(workload):
                del self._changed[id]
            else:
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
    """Decides one snapshot after another, as `decide` does. Its plans stay valid when the next one is made.

    `read` is how many workloads the latest plan had to read, as `Planner.read` says.
    """

    def __init__(self) -> None:
        self.read = 0
        self._planner: Planner | None = None
        self._now = 0.0
        self._pool = Pool()
        self._nodes: tuple[Node, ...] = ()
        self._workloads: dict[WorkloadId, Workload] = {}
        self._running: dict[WorkloadId, Workload] = {}
        self._decisions: Decisions | None = None

    def __call__(self, snapshot: Snapshot) -> Plan:
        planner = self._planner
        self._planner = None  # if this fails, the next one starts over
        clock_set_back = snapshot.now < self._now
        if planner is None or self._pool != snapshot.pool or clock_set_back:
            planner = Planner(snapshot.pool, snapshot.nodes, snapshot.workloads)
            self._workloads = {workload.id: workload for workload in snapshot.workloads}
            self._running = {workload.id: workload for workload in snapshot.workloads if workload.running}
        else:
            if self._nodes != snapshot.nodes:
                if self._decisions is not None:
                    self._decisions.settle()
                planner.set_nodes(snapshot.nodes)
            self._take_over(planner, self._changes(snapshot) if snapshot.changed is None else snapshot.changed)
        self._now, self._pool, self._nodes = snapshot.now, snapshot.pool, snapshot.nodes
        plan = planner.plan(snapshot.now, snapshot.usage)
        assert isinstance(plan.decisions, Decisions)
        self._decisions = plan.decisions.frozen()
        concerned = {**self._running, **{id: self._workloads[id] for id in plan.changes}}.values()
        plan = replace(
            plan,
            decisions=self._decisions,
            projects=dict(plan.projects),  # here, not in the thread of whoever reads them first
            stop_order=stop_order(snapshot, concerned, plan.changes),
            in_line=self._decisions.in_line,
        )
        self._planner, self.read = planner, planner.read
        return plan

    def dissolve(self) -> None:
        """Release the workloads, as `Planner.dissolve` does; its plans are not valid any more."""
        self._decisions = None
        if self._planner is not None:
            self._planner.dissolve()

    def _changes(self, snapshot: Snapshot) -> Mapping[WorkloadId, Workload | None]:
        """The workloads that have changed, or may have, and those that are gone."""
        workloads = {workload.id: workload for workload in snapshot.workloads}
        changes: dict[WorkloadId, Workload | None] = dict.fromkeys(self._workloads.keys() - workloads.keys())
        known = self._workloads.get
        return changes | {id: workload for id, workload in workloads.items() if known(id) is not workload}

    def _take_over(self, planner: Planner, changes: Mapping[WorkloadId, Workload | None]) -> None:
        for id, workload in changes.items():
            if workload is None or not workload.running:
                self._running.pop(id, None)
            else:
                self._running[id] = workload
            if workload is None:
                if self._workloads.pop(id, None) is not None:
                    planner.drop(id)
            elif self._workloads.get(id) != workload:
                planner.put(workload)
                self._workloads[id] = workload
