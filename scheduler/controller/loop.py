"""A loop that runs when it is woken: one run at a time, and with a bounded part of the time.

The planner and the forecaster are two of them. A wake-up during a run or a rest leads to another run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, ParamSpec, TypeVar

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

AFTER_FAILURE = 5.0
"""Seconds until a failed run is retried, if nothing wakes the loop before."""


class Loop(ABC):
    """`work` describes its work in the log. A run starts `delay` seconds after the wake-up, so that it sees related
    changes together. After a run the loop rests `ratio` times as long as the run took, and at least `rest` seconds.
    """

    at_work: ClassVar[int] = 0
    """The number of plans and simulations that are being made now in this process."""

    def __init__(self, work: str, *, delay: float = 0.0, rest: float = 0.0, ratio: float) -> None:
        self._work = work
        self._delay = delay
        self._rest = rest
        self._ratio = ratio
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._alarm: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._forever())

    async def close(self) -> None:
        self.wake_in(None)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def wake(self) -> None:
        """Run, at once or after the rest."""
        self._woken.set()
        self._idle.clear()

    @property
    def busy(self) -> bool:
        """Whether it runs or is about to run."""
        return not self._idle.is_set()

    async def idle(self) -> None:
        """Wait until there has been a run after every wake-up."""
        await self._idle.wait()

    def wake_in(self, seconds: float | None) -> None:
        """Set the timer, which replaces the previous one; `None`: no timer."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        if seconds is not None:
            self._alarm = asyncio.get_running_loop().call_later(max(0.0, seconds), self.wake)

    @abstractmethod
    async def _once(self) -> None:
        """One run."""

    async def _forever(self) -> None:
        while True:
            await self._woken.wait()
            await asyncio.sleep(self._delay)
            self._woken.clear()
            began = time.monotonic()
            with _at_work():
                try:
                    await self._once()
                except Exception:
                    log.exception("%s failed.", self._work)
                    self.wake_in(AFTER_FAILURE)
            if not self._woken.is_set():
                self._idle.set()
            await asyncio.sleep(max(self._rest, self._ratio * (time.monotonic() - began)))


async def simulated(simulate: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Simulate in another thread; garbage is collected after it."""
    with _at_work():
        return await asyncio.to_thread(simulate, *args, **kwargs)


@contextmanager
def _at_work() -> Iterator[None]:
    Loop.at_work += 1
    try:
        yield
    finally:
        Loop.at_work -= 1
