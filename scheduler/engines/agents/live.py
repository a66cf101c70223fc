"""The scheduler's view of a worker that an agent runs, and the states that the agent reports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.base import WorkerState
from scheduler.model import Fault


@dataclass(slots=True)
class LiveWorker:
    """A worker that has not ended. `stop` is the deadline for its end; `save` is the latest time until which it was
    asked to save its state.

    `awaited` are the workers of its gang (including itself) that are not ready to begin; the gang shares one set.
    `disturbed` says how something other than the scheduler is ending it, as far as the engine knows, and `disturbed_by`
    whose fault that is.
    """

    worker: Worker
    spec: Mapping[str, Any]
    awaited: set[Worker]
    agent: str | None = None
    started: float | None = None
    stop: float | None = None
    save: float | None = None
    disturbed: str = ""
    disturbed_by: Fault = Fault.PLACE
    told: asyncio.Event = field(default_factory=asyncio.Event)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def stands(self) -> WorkerState:
        if self.started is not None:
            return WorkerState.RUNNING
        return WorkerState.PENDING if self.agent is None else WorkerState.PULLING

    @property
    def orders(self) -> int:
        """The number of the newest order: another one for each order, and the same after a restart."""
        return 2 * (round(1000 * (self.stop or 0)) + round(1000 * (self.save or 0))) + (not self.awaited)

    def order_stop(self, end: float) -> None:
        if self.stop is None or end < self.stop:
            self.stop = end
            self.order()

    def order_save(self, until: float) -> None:
        self.save = until
        self.order()

    def order(self) -> None:
        """Wake its agent, for which there is a new order."""
        self.told.set()
        self.told = asyncio.Event()


@dataclass(frozen=True, slots=True)
class State:
    """A state that an agent reports: `pulling`, `running` (since `started`), `exited` or `lost` (at `at`)."""

    agent: str
    state: WorkerState
    at: float = 0.0
    started: float | None = None
    exit_code: int | None = None
    reason: str = ""
    stopped: bool | None = None

    @classmethod
    def of_message(cls, message: str) -> State | None:
        """The end that an agent has left in its container's termination message."""
        try:
            said: Mapping[str, Any] = json.loads(message)
            return cls(
                agent=str(said["agent"]),
                state=WorkerState(said["state"]),
                at=float(said.get("at", 0.0)),
                started=said.get("started"),
                exit_code=said.get("exit_code"),
                reason=str(said.get("reason", "")),
                stopped=said.get("stopped"),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
