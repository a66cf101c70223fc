"""The GPUs of sessions: has the engine assign and release them.

What must hold: the engine assigns GPUs to a session after its lease is durable, and they count as held until the engine
has released them. So a crash never leaves a session with GPUs that belong to another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping

from scheduler.engines.base import Engine, Grant, Seat, Traits, addressed
from scheduler.errors import Unavailable
from scheduler.model import Node, NodeName, Session, SessionId

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds until a failed call to the engine is retried."""


class Closed(Unavailable):
    """The session's GPUs are being released."""


class Seats:
    """What the engine has assigned to each session, and the calls under way."""

    def __init__(self, engine: Engine, traits: Traits) -> None:
        self._engine = engine
        self._traits = traits
        self._grants: dict[str, Grant] = {}
        self._seating: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def recover(self, sessions: Iterable[Session], nodes: Mapping[NodeName, Node]) -> None:
        """Assign the GPUs of existing sessions again after a restart; returns once the engine has been called for each.
        A running session is not ended where that fails: the call is retried."""
        for session in sessions:
            self.run(self._seat_again(session, nodes))
        await asyncio.sleep(0)  # each task has begun

    def grant(self, session: SessionId) -> Grant | None:
        """What the engine has assigned to a session."""
        return self._grants.get(session)

    async def seat(self, session: Session, nodes: Mapping[NodeName, Node]) -> None:
        """Return once a session has its GPUs. Raises `RunaiError` where it cannot have them, `Closed` where it was
        closed."""
        if session.id in self._grants:
            return
        seating = self._seating.get(session.id)
        if seating is None:
            self._seating[session.id] = seating = self.run(self._seat(session, nodes))
        await asyncio.wait({seating})
        if seating.cancelled():
            raise Closed("The session was closed before it had its GPUs.")
        seating.result()

    async def unseat(self, session: SessionId) -> None:
        """Return once a session's GPUs are free."""
        if (seating := self._seating.get(session)) is not None:
            seating.cancel()
            await asyncio.wait({seating})
        while True:
            try:
                await self._engine.unseat(session)
                break
            except Exception:
                log.exception("The GPUs of session %s could not be taken back; trying again.", session)
                await asyncio.sleep(AGAIN)
        self._grants.pop(session, None)

    # -- tasks ----------------------------------------------------------------------------------------------

    def run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run a task in the background, until `close`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    @property
    def busy(self) -> bool:
        """Whether a call to the engine is under way."""
        return bool(self._tasks)

    async def idle(self) -> None:
        """Wait until all calls to the engine are done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Stop; sessions keep their GPUs."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller gets it, if it still waits

    async def _seat(self, session: Session, nodes: Mapping[NodeName, Node]) -> None:
        try:
            self._grants[session.id] = await self._engine.seat(_order(session, nodes, self._traits))
        finally:
            self._seating.pop(session.id, None)

    async def _seat_again(self, session: Session, nodes: Mapping[NodeName, Node]) -> None:
        while True:
            try:
                return await self.seat(session, nodes)
            except Exception as error:
                log.warning("Session %s does not have its GPUs yet (%s); trying again.", session.id, error)
                await asyncio.sleep(AGAIN)


def _order(session: Session, nodes: Mapping[NodeName, Node], traits: Traits) -> Seat:
    missing = [worker.node for worker in session.promised if worker.node not in nodes]
    if missing:
        raise Unavailable(f"Node {missing[0]} is gone.")
    there = {worker.node: nodes[worker.node] for worker in session.promised}
    return Seat(session.id, session.user, session.server, addressed(session.promised, traits), there)
