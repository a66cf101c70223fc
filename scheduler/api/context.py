"""The shared objects of the handlers, made once for an application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from scheduler.api.access import Access, Caller, Members
from scheduler.api.broadcast import Broadcast
from scheduler.api.whatifprocess import Simulations
from scheduler.controller import gpuusage
from scheduler.model import Notice, NoticeChoice, Pool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tornado.iostream import IOStream

    from scheduler.api.auth import Authenticator
    from scheduler.api.connections import Connections
    from scheduler.api.declaredload import WithDeclaredLoad
    from scheduler.api.metrics import Metrics
    from scheduler.api.owners import Owners
    from scheduler.controller import Controller
    from scheduler.controller.book import Book
    from scheduler.engines.agents.agents import Agents
    from scheduler.engines.backend import NodeAgents, Notebooks
    from scheduler.engines.base import Traits
    from scheduler.engines.files import JobFiles
    from scheduler.files.blobs import Blobs
    from scheduler.files.disk import Disk
    from scheduler.model import GpuKey
    from scheduler.telemetry import GpuUsage


class Courier(Protocol):
    """Delivers notices outside the browser."""

    def check(self, choice: NoticeChoice) -> None:
        """Raises `Invalid` where a choice can never be delivered."""

    async def send(self, choice: NoticeChoice, notices: Sequence[Notice]) -> None:
        """Raises `Invalid` or `Unavailable`, with a sentence for the user who chose it."""


@dataclass
class Context:
    """`max_blob` is in bytes. `changing` is a lock held while the pool is read and changed."""

    controller: Controller
    blobs: Blobs
    files: JobFiles
    inventory: WithDeclaredLoad
    traits: Traits
    authenticator: Authenticator
    owners: Owners
    base_url: str
    metrics: Metrics
    scrape_token: str | None
    max_blob: int
    connections: Connections[IOStream]
    disk: Disk
    agents: Agents | None = None
    node_agents: NodeAgents | None = None
    notebooks: Notebooks | None = None
    courier: Courier | None = None
    clock: Callable[[], float] = time.time
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    simulations: Simulations = field(default_factory=Simulations)
    broadcast: Broadcast = field(init=False)
    _members: Members = field(default_factory=lambda: Members(Pool()))

    def __post_init__(self) -> None:
        self.broadcast = Broadcast(self.controller, self.files, self.gpu_usage, self.access, self.clock)

    @property
    def book(self) -> Book:
        return self.controller.book

    def gpu_usage(self) -> Mapping[GpuKey, GpuUsage]:
        """The use of the GPUs that are measured, as numbered in placements."""
        return gpuusage.in_sight(self.inventory, self.book, picks=self.traits.picks_gpus)

    def access(self, caller: Caller) -> Access:
        pool = self.book.pool
        if self._members.pool is not pool:
            self._members = Members(pool)
        return Access(caller, pool, self._members)
