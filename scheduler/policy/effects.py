"""What a change of the pool brings about: which jobs would be stopped, moved, resized and started for it.

Both pools, before and after the change, are simulated at one instant until the policy has nothing more to do. As in the
real pool, plans are also made while jobs that were told to stop have not ended yet: those jobs do not wait, so others
may be promised their GPUs. The difference is the effect of the change, without what the policy is about to do anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from scheduler.model import Environment, Workload, WorkloadId
from scheduler.policy.planner import SnapshotPlanner
from scheduler.policy.play import begin, release
from scheduler.policy.types import Snapshot

CYCLES = 40
"""The most plans for each pool."""


class Effect(StrEnum):
    STOP = "stop"
    MOVE = "move"
    """It continues in other places …"""
    RESIZE = "resize"
    """… or with more or fewer workers."""
    START = "start"


def effects(before: Snapshot, after: Snapshot) -> Mapping[Effect, Sequence[Workload]]:
    """The jobs of each effect, in the order of the snapshot: as they run now, or as they would once they have started.

    The two snapshots have the same workloads in two pools.
    """
    found: dict[Effect, list[Workload]] = {effect: [] for effect in Effect}
    would = _settled(after)
    for id, was in _settled(before).items():
        will = would.get(id)
        effect = _effect(was, will)
        if effect is not None and was.request.environment is Environment.TRAIN:
            found[effect].append(will if will is not None and effect is Effect.START else was)
    return found


def _effect(was: Workload, will: Workload | None) -> Effect | None:
    if not was.running:
        return Effect.START if will is not None and will.running else None
    if will is None or not will.running:
        return Effect.STOP
    if len(was.placement) != len(will.placement):
        return Effect.RESIZE
    return None if was.placement == will.placement else Effect.MOVE


def _settled(snapshot: Snapshot) -> Mapping[WorkloadId, Workload]:
    """The workloads by id once no plan changes anything any more."""
    decide = SnapshotPlanner()
    gone = {each.id for each in snapshot.workloads if each.stopping and not each.nomination}
    for _ in range(CYCLES):
        told = begin(snapshot, decide(snapshot))
        if told.workloads == snapshot.workloads:
            if not any(each.stopping for each in told.workloads):
                break
            told = release(told, gone)
        snapshot = told
    decide.dissolve()
    return {workload.id: workload for workload in snapshot.workloads}
