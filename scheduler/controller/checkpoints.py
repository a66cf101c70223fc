"""Asks now and then when the running jobs last saved their state.

What a stop loses is what a job did since, so the policy ranks its victims by that, and restarts nobody who has never
saved anything to give it more workers. It is looked for in the job's checkpoint folder: nothing needs to be told by the
job.
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
"""Seconds between two looks."""


class Checkpoints:
    """What is new in `files` is told by `note`."""

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
