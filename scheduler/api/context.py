"""What the handlers work with: one object, made once for an application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.api.access import Access, Caller

if TYPE_CHECKING:
    from scheduler.api.auth import Authenticator
    from scheduler.api.bundles import Owners
    from scheduler.api.metrics import Metrics
    from scheduler.blobs import Blobs
    from scheduler.controller import Book, Controller
    from scheduler.engines.base import Engine
    from scheduler.telemetry import GpuUsage, Inventory

USAGE_AGE = 1.0
"""For how many seconds a measurement of the GPUs is told again rather than taken anew."""


@dataclass
class Context:
    """`max_blob` is in bytes. `changing` is held by whoever reads the pool in order to change it."""

    controller: Controller
    blobs: Blobs
    engine: Engine
    inventory: Inventory
    authenticator: Authenticator
    owners: Owners
    base_url: str
    metrics: Metrics
    scrape_token: str | None
    max_blob: int
    clock: Callable[[], float] = time.time
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _usage: Mapping[tuple[str, int], GpuUsage] = field(default_factory=dict)
    _measured: float = float("-inf")

    @property
    def book(self) -> Book:
        return self.controller.book

    def access(self, caller: Caller) -> Access:
        return Access(caller, self.book.pool)

    def usage(self) -> Mapping[tuple[str, int], GpuUsage]:
        """How busy each GPU is, at most `USAGE_AGE` old."""
        now = time.monotonic()
        if now - self._measured > USAGE_AGE:
            self._usage, self._measured = self.inventory.usage(self.book.nodes), now
        return self._usage
