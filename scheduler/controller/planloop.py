"""Wakes the policy when something changed, and again when its plan said so.

On an idle pool it plans at once; changes that come while it plans, or just after, are judged together. It takes at most half
of the time, so that deciding over many jobs leaves room for those who ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.controller.loop import Loop
from scheduler.model import WorkerPlacement
from scheduler.policy import Action, Decision, Plan, Snapshot

TOGETHER = 0.003
"""Changes within so many seconds after a plan are judged together."""

TELL = 500
"""So many waiting jobs are told of a new reason at once, those in front first; the others a moment later."""

TELL_AGAIN = 1.0

Decide = Callable[[Snapshot], Plan]
Told = Mapping[str, Decision]
"""What each waiting job was told last."""


@dataclass(frozen=True, slots=True)
class Digest:
    """A plan, with what has to be done picked out of it.

    `acts` are the decisions that change something now; `news` are waiting jobs that have another reason or position; `lost`
    are nominations that could not be honoured.
    """

    snapshot: Snapshot
    plan: Plan
    acts: Mapping[str, Decision]
    news: Mapping[str, Decision]
    lost: Mapping[str, tuple[WorkerPlacement, ...]]


class PlanLoop(Loop):
    """Reads with `look`, decides in a thread with `decide`, and hands the result to `carry_out`, one plan at a time."""

    def __init__(
        self,
        decide: Decide,
        look: Callable[[], Snapshot],
        carry_out: Callable[[Digest], None],
        clock: Callable[[], float],
    ) -> None:
        super().__init__("Planning", rest=TOGETHER, ratio=1.0)
        self._decide = decide
        self._look = look
        self._carry_out = carry_out
        self._clock = clock
        self._told: Told = {}

    def open(self) -> None:
        super().open()
        self.wake()

    async def _once(self) -> None:
        snapshot = self._look()
        digest, told = await asyncio.to_thread(self._digest, snapshot)
        self._told = told
        again = digest.plan.again_at
        if len(digest.news) == TELL:
            again = min(again or float("inf"), self._clock() + TELL_AGAIN)
        self.wake_in(None if again is None else again - self._clock())
        self._carry_out(digest)

    # -- in a thread --------------------------------------------------------------------------------------

    def _digest(self, snapshot: Snapshot) -> tuple[Digest, Told]:
        plan = self._decide(snapshot)
        acts: dict[str, Decision] = {}
        waits: dict[str, Decision] = {}
        for workload, decision in plan.decisions.items():
            if decision.action is Action.WAIT or (decision.action is Action.START and decision.after):
                waits[workload] = decision
            elif decision.action is not Action.KEEP:
                acts[workload] = decision
        changed = [name for name, decision in waits.items() if not _same(self._told.get(name), decision)]
        changed.sort(key=lambda name: waits[name].position or 0)
        news = {name: waits[name] for name in changed[:TELL]}
        told = {name: self._told[name] for name in waits if name in self._told}
        told.update(news)
        nominations = {
            workload.id: workload.nomination for workload in snapshot.workloads if workload.nomination
        }
        lost = {id: c for id, c in nominations.items() if plan.decisions[id].placement[: len(c)] != c}
        return Digest(snapshot, plan, acts, news, lost), told


def _same(told: Decision | None, decision: Decision) -> bool:
    """Whether a waiting job would hear nothing new."""
    if told is None or told is decision:
        return told is decision
    return (told.reason, told.position) == (decision.reason, decision.position)
