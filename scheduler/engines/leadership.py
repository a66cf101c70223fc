"""Leadership: one scheduler at a time controls the pool."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod

from scheduler.discovery.statefolder import StateFolder
from scheduler.errors import Conflict

_ASK_AGAIN = 0.05


class Leadership(ABC):
    """Held from `acquire` until `release`, the end of the process, or until it is lost."""

    def election(self) -> str:
        """The name of the election, where its winner may forcibly end the previous leader; known once this process
        leads."""
        return ""

    def leader(self) -> str:
        """The leader or its address, for people; empty where it is not known."""
        return ""

    @abstractmethod
    async def acquire(self) -> None:
        """Wait until this process leads. Raises `Conflict` where another one leads and does not end in time."""

    @abstractmethod
    async def lost(self) -> None:
        """Wait until leadership is lost without `release`: this process must then end at once."""

    @abstractmethod
    async def release(self) -> None:
        """Let another process lead."""


class FolderLeadership(Leadership):
    """The holder of the lock on the state folder leads. The lock ends with the process, so leadership is never lost.

    `patience` is how many seconds to wait for another holder.
    """

    def __init__(self, folder: StateFolder, patience: float) -> None:
        self._folder = folder
        self._patience = patience

    def leader(self) -> str:
        endpoint = self._folder.endpoint()
        return "" if endpoint is None else f"at {endpoint.url}"

    async def acquire(self) -> None:
        until = time.monotonic() + self._patience
        while True:
            try:
                return self._folder.lock()
            except Conflict:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_ASK_AGAIN)

    async def lost(self) -> None:
        await asyncio.Event().wait()

    async def release(self) -> None:
        self._folder.unlock()
