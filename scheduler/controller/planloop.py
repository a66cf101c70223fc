"""Wakes the policy when something changed, and again when its plan said so.

On an idle pool it plans at once; changes that come while it plans, or just after, are judged together. It takes at most
a third of the time, so that deciding over many jobs leaves room for those who ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.controller.loop import Loop
from scheduler.model import WorkerPlacement, WorkloadId
from scheduler.policy import Action, Decision, Plan, Snapshot

TOGETHER = 0.003
"""Changes within so many seconds after a plan are judged together."""

Decide = Callable[[Snapshot], Plan]


@dataclass(frozen=True, slots=True)
class PlannedActions:
    """A plan, with what has to be done picked out of it.

    `acts` are the decisions that change something now; `lost` are nominations that could not be honoured.
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

    def open(self) -> None:
        super().open()
        self.wake()

    async def _once(self) -> None:
        snapshot = self._look()
        planned = await asyncio.to_thread(self._pick_actions, snapshot)
        again = planned.plan.again_at
        self.wake_in(None if again is None else again - self._clock())
        self._carry_out(planned)

    # -- in a thread --------------------------------------------------------------------------------------

    def _pick_actions(self, snapshot: Snapshot) -> PlannedActions:
        self._note_nominations(snapshot)
        plan = self._decide(snapshot)
        # Both are worked out when they are first asked for: here in the thread, so that no request waits for it.
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
    """Whether something is to be done now, not when others have left."""
    return decision.action not in (Action.WAIT, Action.KEEP) and not (
        decision.action is Action.START and decision.after
    )
