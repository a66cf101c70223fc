"""The plan that everybody reads stays as it was made, though the planner goes on with what it knows."""

from __future__ import annotations

from pathlib import Path

from scheduler.model import JobState
from scheduler.policy import SnapshotPlanner
from tests.controller.stage import World, make_job, opened


async def test_a_plan_says_nothing_of_a_job_that_came_after_it(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, decide=SnapshotPlanner()) as bench:
        controller = bench.controller
        await bench.reaches(await controller.submit(make_job(gpus=4)), JobState.RUNNING)
        first = await controller.submit(make_job(gpus=4))
        await bench.settled()
        plan = controller.book.plan
        before = plan.decisions[first.id]
        later = await controller.submit(make_job(gpus=4, priority=90))
        await bench.settled()
        assert (before.position, controller.book.plan.decisions[first.id].position) == (1, 2)
        assert plan.decisions.get(later.id) is None
        assert plan.decisions[first.id] is before
