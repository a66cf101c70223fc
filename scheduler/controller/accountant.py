"""Charges running workloads at regular intervals, and records how much of their time is idle where that is measured,
and how long the queue is."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from scheduler.controller import accounting
from scheduler.controller.idleness import BUSY
from scheduler.controller.statewriter import StateWriter
from scheduler.model import ONE, UNKNOWN_TYPE, Consumption, GpuKey, JobState, PoolUse
from scheduler.store import ChangeSet, PoolRecord, UsageRecord

if TYPE_CHECKING:
    from scheduler.telemetry import GpuUsage

EVERY = 60.0
"""Seconds between two charges."""


class Accountant:
    """Charges every `EVERY` seconds, and on request."""

    def __init__(self, writer: StateWriter, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._clock = clock
        self._seen: accounting.Account = defaultdict(Consumption)
        self._of_pool: dict[int, PoolUse] = defaultdict(PoolUse)
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY, self._again)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _again(self) -> None:
        self.charge()
        self.open()

    def look(self, usage: Mapping[GpuKey, GpuUsage], seconds: float) -> None:
        """Count for the last `seconds` what is held and how much of it is in use now, and the jobs in the queue."""
        decided, now = self._writer.decided, self._clock()
        hour = accounting.hour_of(now)
        types = {node.name: node.gpu_type for node in decided.nodes}
        held = measured = idle = 0.0
        for charge in accounting.going_on(decided, now):
            for worker in charge.placement:
                amount = seconds * worker.share / ONE
                held += amount * len(worker.gpus)
                for gpu in worker.gpus:
                    busy = usage.get(GpuKey((worker.node, gpu)))
                    if busy is None or busy.utilisation is None:
                        continue
                    used = Consumption(measured=amount, idle=amount if busy.utilisation < BUSY else 0.0)
                    accounting.add(self._seen, hour, charge, types.get(worker.node) or UNKNOWN_TYPE, used)
                    measured, idle = measured + used.measured, idle + used.idle
        queued = seconds * decided.states.get(JobState.QUEUED, 0)
        self._of_pool[accounting.minute_of(now)] += PoolUse(seconds, held, measured, idle, queued)

    def charge(self) -> None:
        """Record what is held until now."""
        decided = self._writer.decided
        now = max(self._clock(), decided.accounted_until)
        found = accounting.records(accounting.going_on(decided, now), decided.nodes)
        seen = tuple(UsageRecord(hour, consumer, used) for (hour, consumer), used in self._seen.items())
        history = tuple(PoolRecord(minute, used) for minute, used in self._of_pool.items())
        self._seen.clear()
        self._of_pool.clear()
        if found or seen or history:
            self._writer.commit(ChangeSet(accounted=(*found, *seen), accounted_until=now, history=history))
