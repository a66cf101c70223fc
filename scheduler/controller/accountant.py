"""Charges running workloads at regular intervals, and records how much of their time is idle where that is measured."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from scheduler.controller import accounting
from scheduler.controller.idleness import BUSY
from scheduler.controller.statewriter import StateWriter
from scheduler.model import ONE, UNKNOWN_TYPE, Consumption, GpuKey
from scheduler.store import ChangeSet, UsageRecord

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
        """Count the current utilisation of GPUs for the last `seconds`."""
        decided, hour = self._writer.decided, accounting.hour_of(self._clock())
        if not usage:
            return
        types = {node.name: node.gpu_type for node in decided.nodes}
        for charge in accounting.going_on(decided, self._clock()):
            for worker in charge.placement:
                for gpu in worker.gpus:
                    busy = usage.get(GpuKey((worker.node, gpu)))
                    if busy is None or busy.utilisation is None:
                        continue
                    amount = seconds * worker.share / ONE
                    used = Consumption(measured=amount, idle=amount if busy.utilisation < BUSY else 0.0)
                    accounting.add(self._seen, hour, charge, types.get(worker.node) or UNKNOWN_TYPE, used)

    def charge(self) -> None:
        """Record what is held until now."""
        decided = self._writer.decided
        now = max(self._clock(), decided.accounted_until)
        found = accounting.records(accounting.going_on(decided, now), decided.nodes)
        seen = tuple(UsageRecord(hour, consumer, used) for (hour, consumer), used in self._seen.items())
        self._seen.clear()
        if found or seen:
            self._writer.commit(ChangeSet(accounted=(*found, *seen), accounted_until=now))
