"""What would happen to a job if it were submitted now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic

from scheduler.controller import dependencies
from scheduler.controller.delegatedjobs import DelegatedJobs
from scheduler.controller.forecaster import REST, Forecaster
from scheduler.controller.loop import simulated
from scheduler.controller.statewriter import StateWriter
from scheduler.model import Job, JobState, Workload
from scheduler.policy import DryRun, Snapshot, dry_run


class DryRuns:
    """Made one at a time. `check` refuses a job as `submit` does; `runs_like` has the run times of similar jobs."""

    def __init__(
        self,
        writer: StateWriter,
        check: Callable[[Job], Awaitable[None]],
        snapshot: Callable[[], Snapshot],
        runs_like: Callable[[Job | None, Workload], Sequence[float]],
        forecaster: Forecaster,
        delegated: DelegatedJobs,
    ) -> None:
        self._writer = writer
        self._check = check
        self._snapshot = snapshot
        self._runs_like = runs_like
        self._forecaster = forecaster
        self._delegated = delegated
        self._trying = asyncio.Lock()

    async def dry_run(self, job: Job) -> DryRun:
        """What would happen to this job. It is refused as by `submit`, and not kept."""
        await self._check(job)
        job = replace(job, state=JobState.QUEUED)
        blocked = dependencies.blocked((job,), self._writer.decided.jobs, {})
        if blocked := blocked or self._delegated.decisions((job,), ()):
            return DryRun(blocked[job.id])
        await self._trying.acquire()
        begun = monotonic()
        try:
            workload = self._writer.book.run_times.workload(job)
            found = await simulated(dry_run, self._snapshot(), workload, partial(self._runs_like, job))
        finally:
            # As after a forecast: open forms in a large pool ask repeatedly.
            asyncio.get_running_loop().call_later(REST * (monotonic() - begun), self._trying.release)
        start = found.decision.estimated_start
        if start is None:
            return found
        return replace(found, decision=replace(found.decision, start_range=self._forecaster.range(start)))
