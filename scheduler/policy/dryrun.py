"""What would happen to a job if it were submitted now: one plan with it, and a forecast where it would wait."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler.model import Workload
from scheduler.policy.forecast import forecast
from scheduler.policy.planner import SnapshotPlanner
from scheduler.policy.play import carry_out
from scheduler.policy.similar import SimilarRunTimes
from scheduler.policy.stoporder import StopOrder
from scheduler.policy.types import Action, Decision, Snapshot


@dataclass(frozen=True, slots=True)
class DryRun:
    """The decision of the next plan for the job, with the estimate of its start where it would wait.

    `over_quota`: once it has started, its GPUs are among those that its project would lose first to others. `until` is
    the instant before which it does not start, where the forecast ends there.
    """

    decision: Decision
    over_quota: bool = False
    until: float | None = None


def dry_run(snapshot: Snapshot, workload: Workload, similar: SimilarRunTimes) -> DryRun:
    """Submit `workload`, which waits, to the pool of a snapshot that does not have it."""
    submitted = replace(snapshot, workloads=(*snapshot.workloads, workload), changed=None)
    planner = SnapshotPlanner()
    plan = planner(submitted)
    decision = plan.decisions[workload.id]
    if decision.action is Action.START:
        then = carry_out(submitted, plan)
        order = StopOrder(then.pool, then.nodes, lambda: then.workloads, then.now)
        return DryRun(decision, over_quota=workload.id in order.over_quota)
    del plan
    planner.dissolve()
    found = forecast(submitted, similar)
    start = found.starts.get(workload.id, decision.estimated_start)
    return DryRun(replace(decision, estimated_start=start), until=found.until if start is None else None)
