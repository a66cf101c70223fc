"""The GPUs of sessions: has the engine give them and take them back.

What must hold: a session is given its GPUs after its lease is durable, and they count as held until the engine has
taken them back. So no crash in between leaves a session with GPUs that are another's.
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
"""Seconds until the engine is asked again for what it could not do."""


class Closed(Unavailable):
    """The session's GPUs are being taken back."""


class Seats:
    """What the engine has given to which session, and what it is being asked for."""

    def __init__(self, engine: Engine, traits: Traits) -> None:
        self._engine = engine
        self._traits = traits
        self._grants: dict[str, Grant] = {}
        self._seating: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def recover(self, sessions: Iterable[Session], nodes: Mapping[NodeName, Node]) -> None:
        """Give their GPUs again to sessions of before; returns once the engine has been asked for each. One that runs
        is not ended where that does not work: it is tried on."""
        for session in sessions:
            self.run(self._seat_again(session, nodes))
        await asyncio.sleep(0)  # each task has begun

    def grant(self, session: SessionId) -> Grant | None:
        """What a session has been given."""
        return self._grants.get(session)

    async def seat(self, session: Session, nodes: Mapping[NodeName, Node]) -> None:
        """Return once a session has its GPUs. Raises `RunaiError` where it cannot have them, `Closed` where it is
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
        """Do something beside, until `close`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    @property
    def busy(self) -> bool:
        """Whether the engine is being asked for something."""
        return bool(self._tasks)

    async def idle(self) -> None:
        """Wait until the engine has done what it was asked for."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Let go; sessions keep their GPUs."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it hears of it; nobody may be left who does

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
    missing = [worker.node for worker in session.placement if worker.node not in nodes]
    if missing:
        raise Unavailable(f"Node {missing[0]} is gone.")
    there = {worker.node: nodes[worker.node] for worker in session.placement}
    return Seat(session.id, session.user, session.server, addressed(session.placement, traits), there)
