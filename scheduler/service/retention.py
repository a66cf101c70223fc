"""Deletes what is no longer needed: jobs that ended long ago with their data, and uploads for them.

What must hold:
- An upload is kept as long as any job or schedule refers to it, also one that is just being submitted: an upload that
  was stored or looked up within `SPARED` seconds is always kept.
- Everything is done in the background, in small steps; what a crash or a full disk interrupts is done in a later round.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable

from scheduler.api.owners import Owners
from scheduler.controller import Controller
from scheduler.files.blobs import Blobs
from scheduler.store import Store

log = logging.getLogger(__name__)

FIRST = 60.0
"""Seconds from the start to the first round: waiting requests come first."""

EVERY = 3600.0
"""Seconds between two rounds."""

SWEEP = 24
"""Every how many rounds unreferenced uploads are deleted."""

SPARED = 86_400.0
"""For how many seconds an upload that was stored or looked up is kept: a submission may follow."""

STEP = 500
REST = 0.05
"""How many jobs are processed in one step, and the seconds of pause after it."""


class Retention:
    """Runs beside the service."""

    def __init__(
        self,
        controller: Controller,
        store: Store,
        blobs: Blobs,
        owners: Owners,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self._store = store
        self._blobs = blobs
        self._owners = owners
        self._clock = clock

    async def forever(self) -> None:
        await asyncio.sleep(FIRST)
        for number in itertools.count():
            try:
                await self._controller.tidy()
                if number % SWEEP == 0:
                    await self.sweep()
            except Exception:
                log.exception("Expired data could not be deleted; trying again in an hour.")
            await asyncio.sleep(EVERY)

    async def sweep(self) -> int:
        """Delete the uploads that no job or schedule refers to; returns the number of blobs."""
        before = self._clock() - SPARED
        needed = {blob for schedule in self._controller.schedules.all.values() for blob in schedule.blobs}
        last = ""
        while page := await self._store.programs(last, STEP):
            needed.update(blob for _, program in page for blob in program.blobs)
            last = page[-1][0]
            await asyncio.sleep(REST)
        count = await asyncio.to_thread(self._blobs.sweep, needed, before)
        await asyncio.to_thread(self._owners.sweep, self._blobs.exists)
        return count
