"""The reports of a gang's workers."""

from __future__ import annotations

from scheduler.controller.workertracker import WorkerTracker
from scheduler.engines.base import Traits, WorkerState, WorkerStatus
from scheduler.model import JobId
from tests.controller.stage import World
from tests.engines.scripted import ScriptedEngine

JOB, WORKERS = JobId("job00001"), 500


async def test_reports_that_come_together_are_evaluated_together(world: World) -> None:
    engine, evaluated = ScriptedEngine(world), list[tuple[str, int]]()
    tracker = WorkerTracker(
        engine, Traits(), lambda job, attempt: evaluated.append((job, attempt)), lambda job, attempt: {}
    )
    await tracker.open(())
    assert engine.report is not None
    for rank in range(WORKERS):
        engine.report(WorkerStatus(JOB, 1, rank, WorkerState.RUNNING, at=1.0))
    assert evaluated == [(JOB, 1)]  # the first at once
    assert tracker.busy
    await tracker.idle()
    assert evaluated == [(JOB, 1)] * 2
    assert not tracker.busy
    await tracker.close()
