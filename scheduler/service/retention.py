"""What nobody needs any more goes by itself: jobs that ended long ago with all they left, and what was captured for
them.

What must hold:
- What was captured stays as long as any job refers to it, also one that is just being submitted: what was put or asked
  for within `SPARED` seconds is left alone, whoever refers to it.
- All of it is done in the background, in small steps; what a crash or a full disk interrupts is done in a later round.
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
"""Seconds after the start until the first round: those who wait for the scheduler come before."""

EVERY = 3600.0
"""Seconds between two rounds."""

SWEEP = 24
"""Every so many rounds it is looked for what was captured and no job refers to."""

SPARED = 86_400.0
"""For so many seconds what was put or asked for is left alone: a submission is to follow."""

STEP = 500
REST = 0.05
"""So many jobs are looked at in one go, and so many seconds are left to others after it."""


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
        """Delete what was captured and no job refers to; returns how many blobs."""
        before = self._clock() - SPARED
        needed, last = set[str](), ""
        while page := await self._store.programs(last, STEP):
            needed.update(blob for _, program in page for blob in program.blobs)
            last = page[-1][0]
            await asyncio.sleep(REST)
        count = await asyncio.to_thread(self._blobs.sweep, needed, before)
        await asyncio.to_thread(self._owners.sweep, self._blobs.exists)
        return count
