"""Long work in the event loop, done in slices: other tasks run in between."""

from __future__ import annotations

import asyncio

SLICE = 0.002
"""The length of a slice of work, in seconds, before other tasks run."""


class Slices:
    """Work in slices: after each, other tasks may run."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._began = self._time()

    @property
    def over(self) -> bool:
        return self._time() - self._began > SLICE

    async def rest(self) -> None:
        await asyncio.sleep(0)
        self._began = self._time()
