"""The states of pods that have not started, reported once they have lasted: most change again within milliseconds, and
each report is written to the database and sent to everybody who watches the job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.base import WorkerState

LASTING = 0.2
"""Seconds for which a state must not change; it is reported at most as many seconds later."""

Tell = Callable[[Worker, WorkerState, str], None]


class Settling:
    """`tell(worker, state, reason)` gets the states that last; `lasting` is in seconds."""

    def __init__(self, tell: Tell, lasting: float = LASTING) -> None:
        self._tell = tell
        self._lasting = lasting
        self._new: dict[Worker, tuple[WorkerState, str]] = {}
        self._old: dict[Worker, tuple[WorkerState, str]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def put(self, worker: Worker, state: WorkerState, reason: str) -> None:
        """This is a worker's state now."""
        if self._old.get(worker) == (state, reason):
            return
        self._old.pop(worker, None)
        self._new[worker] = (state, reason)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._lasting, self._pass)

    def close(self) -> None:
        """Report nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._new, self._old = {}, {}

    def _pass(self) -> None:
        """Report the states that have not changed since the last pass."""
        lasting, self._old, self._new = self._old, self._new, {}
        self._timer = asyncio.get_running_loop().call_later(self._lasting, self._pass) if self._old else None
        for worker, (state, reason) in lasting.items():
            self._tell(worker, state, reason)
