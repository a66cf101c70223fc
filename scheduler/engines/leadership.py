"""Which process decides: one scheduler at a time has the pool."""

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
        """The name of the election, where its winner may end who led before by force; known once this process leads."""
        return ""

    def leader(self) -> str:
        """Who leads, or where, for people; empty where nobody knows."""
        return ""

    @abstractmethod
    async def acquire(self) -> None:
        """Wait until this process leads. Raises `Conflict` where another one does and is not waited for."""

    @abstractmethod
    async def lost(self) -> None:
        """Wait until another process may lead, though this one has not released it: it must end at once."""

    @abstractmethod
    async def release(self) -> None:
        """Let another process lead."""


class FolderLeadership(Leadership):
    """Who holds the lock on the state folder leads. It goes with the process, and so is never lost.

    `patience` is how many seconds another holder is waited for.
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
