"""When a running job may be ended to begin again with more workers.

Growing is a gain that nobody asked for, so it must not cost what was done: a job that has never saved its state would begin
from nothing, and one that was only just started, or is about to end, would lose more time than it gains.
"""

from __future__ import annotations

from scheduler.policy.workloads import WorkloadState

NEVER = float("inf")


def may_grow_from(job: WorkloadState, interval: float, now: float) -> float:
    """The time from which on a job may grow (`NEVER`: not as far as is known). One that the same plan starts may at once.

    `interval` is how long an attempt runs at least before that; where it is 0 a job's restart costs nothing.
    """
    workload = job.workload
    if not workload.running or not interval:
        return now
    if workload.started is None or workload.checkpointed is None:
        return NEVER
    runtime = workload.request.expected_runtime
    if runtime is not None and now <= workload.started + runtime < now + interval:
        return NEVER  # of one that should have ended by now nobody knows when it will
    return max(workload.started + interval, job.protected_until())
