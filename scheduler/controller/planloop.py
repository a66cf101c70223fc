"""Runs the policy when something has changed, and at the time that its last plan gives.

On an idle pool it plans at once; changes during a plan, or just after it, are planned together. It takes at most a
third of the time, so that requests are answered while it plans for many jobs. The policy has a thread of its own: the
shared ones may be busy for seconds, for example when the workers of thousands of jobs report and each report is synced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from scheduler.controller.loop import Loop
from scheduler.errors import shortage
from scheduler.model import WorkerPlacement, WorkloadId
from scheduler.policy import Action, Decision, Plan, Snapshot

TOGETHER = 0.003
"""Changes within this many seconds after a plan are planned together."""

Decide = Callable[[Snapshot], Plan]


@dataclass(frozen=True, slots=True)
class PlannedActions:
    """A plan, and what has to be done for it.

    `acts` are the decisions that change something now; `lost` are nominations that no longer hold.
    """

    snapshot: Snapshot
    plan: Plan
    acts: Mapping[WorkloadId, Decision]
    lost: Mapping[WorkloadId, tuple[WorkerPlacement, ...]]


class PlanLoop(Loop):
    """Reads with `look`, decides in a thread with `decide`, and hands the result to `carry_out`, one plan at a time."""

    def __init__(
        self,
        decide: Decide,
        look: Callable[[], Snapshot],
        carry_out: Callable[[PlannedActions], None],
        clock: Callable[[], float],
    ) -> None:
        super().__init__("Planning", rest=TOGETHER, ratio=2.0)
        self._decide = decide
        self._look = look
        self._carry_out = carry_out
        self._clock = clock
        self._nominations: dict[WorkloadId, tuple[WorkerPlacement, ...]] = {}
        self._thread = ThreadPoolExecutor(1, "plans")

    def open(self) -> None:
        """Raises `Unavailable` where the system has no thread."""
        try:
            self._thread.submit(int)  # starts it
        except RuntimeError as error:
            raise shortage(error) or error from None
        super().open()
        self.wake()

    async def close(self) -> None:
        await super().close()
        self._thread.shutdown(wait=False)

    async def _once(self) -> None:
        snapshot = self._look()
        planned = await asyncio.get_running_loop().run_in_executor(self._thread, self._pick_actions, snapshot)
        again = planned.plan.again_at
        self.wake_in(None if again is None else again - self._clock())
        self._carry_out(planned)

    # -- in a thread --------------------------------------------------------------------------------------

    def _pick_actions(self, snapshot: Snapshot) -> PlannedActions:
        self._note_nominations(snapshot)
        plan = self._decide(snapshot)
        # Both are computed on first use: here in the thread, so that no request waits for it.
        len(plan.stop_order.over_quota), len(plan.stop_order.positions)
        acts = {workload: decision for workload, decision in plan.changes.items() if _changes_something(decision)}
        lost = {id: c for id, c in self._nominations.items() if plan.decisions[id].placement[: len(c)] != c}
        return PlannedActions(snapshot, plan, acts, lost)

    def _note_nominations(self, snapshot: Snapshot) -> None:
        changed = snapshot.changed
        if changed is None:
            self._nominations = {}
            changed = {workload.id: workload for workload in snapshot.workloads}
        for id, workload in changed.items():
            if workload is not None and workload.nomination:
                self._nominations[id] = workload.nomination
            else:
                self._nominations.pop(id, None)


def _changes_something(decision: Decision) -> bool:
    """Whether something has to be done now, not after others have left."""
    return decision.action not in (Action.WAIT, Action.KEEP) and not (
        decision.action is Action.START and decision.after
    )
