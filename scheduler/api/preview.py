"""The preview of a change of the pool: the differences in the pool file, warnings, and the effects on jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scheduler.api.convert import from_milli
from scheduler.controller.loop import simulated
from scheduler.model import Pool, Workload, held_by
from scheduler.policy import Effect, effects
from scheduler.pool.changes import changes, refuse_harm, stays, warnings
from scheduler.schema import Applied, EffectView

if TYPE_CHECKING:
    from scheduler.api.context import Context

NAMED = 20
"""The most jobs of a project that are named."""


async def previewed(api: Context, after: Pool) -> Applied:
    """Raises `Conflict` where the change would be refused."""
    declared, before, now = api.book.pool, api.controller.snapshot(), api.controller.snapshot(after)
    refuse_harm(declared, after, before.workloads, now.nodes)
    found = changes(declared, after)
    effect = await simulated(effects, before, now) if found else {}
    told = [*stays(after, before.nodes, now.nodes, before.workloads), *warnings(after, now.nodes, now.now)]
    return Applied(preview=True, changes=found, warnings=told, effects=effect_views(effect))


def effect_views(found: Mapping[Effect, Sequence[Workload]]) -> list[EffectView]:
    """One for each effect on each project."""
    projects: dict[tuple[Effect, str], list[Workload]] = defaultdict(list)
    for effect, workloads in found.items():
        for workload in workloads:
            projects[effect, workload.request.project].append(workload)
    return [
        EffectView(
            action=effect.value,
            project=project,
            jobs=len(workloads),
            gpus=from_milli(sum(held_by(workload.placement) for workload in workloads)),
            ids=[workload.id for workload in workloads[:NAMED]],
        )
        for (effect, project), workloads in projects.items()
    ]
