"""Checks at regular intervals when the running jobs last saved their state.

A stop loses the work since then, so the policy ranks victims by it, and it never restarts a job without a checkpoint to
give it more workers. The controller looks into the job's checkpoint folder; the job need not report anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress

from scheduler.engines.files import Area, JobFiles
from scheduler.model import Job, JobId, JobState

log = logging.getLogger(__name__)

EVERY = 15.0
"""Seconds between two checks."""


class Checkpoints:
    """Calls `note` for what is new in `files`."""

    def __init__(
        self,
        files: JobFiles,
        jobs: Callable[[], Collection[Job]],
        note: Callable[[JobId, float], None],
    ) -> None:
        self._files = files
        self._jobs = jobs
        self._note = note
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._forever())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _forever(self) -> None:
        while True:
            for job in list(self._jobs()):
                if job.state is JobState.RUNNING:
                    await self._look(job)
            await asyncio.sleep(EVERY)

    async def _look(self, job: Job) -> None:
        try:
            saved = await self._files.list(job.id, Area.CHECKPOINT)
        except Exception:
            log.exception("The checkpoint time of job %s is unknown.", job.id)
            return
        at = max((file.modified for file in saved), default=None)
        if at is not None and at != job.checkpointed:
            self._note(job.id, at)
