"""A published plan does not change, though the planner reuses its data."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scheduler.model import JobState
from scheduler.policy import SnapshotPlanner
from tests.controller.stage import World, make_job, opened


async def test_a_plan_has_no_decision_for_a_later_job(tmp_path: Path, world: World) -> None:
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


async def test_a_plan_does_not_wait_for_the_threads_that_others_keep_busy(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world) as bench:
        released, loop = threading.Event(), asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as busy:
            loop.set_default_executor(busy)
            busy.submit(released.wait)
            try:
                job = await bench.controller.submit(make_job(gpus=1))
                await bench.until(lambda: bench.controller.book.jobs[job.id].state is JobState.RUNNING)
            finally:
                released.set()
