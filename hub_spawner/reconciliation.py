"""Reconciles the scheduler's sessions with the hub's servers after one of them was down.

What must hold: a session without a server is closed, a server that runs with a lease has its session. A server that is
starting or stopping is left alone until that is done, since its spawner is active. A server that started while its hub
was killed keeps its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from scheduler.client import AsyncClient
from scheduler.errors import RunaiError
from scheduler.schema import SessionOpen, SessionView

PAUSES = (0.2, 10.0)
"""Seconds between two passes while the scheduler does not answer or a server is starting or stopping: the first pause,
and the longest."""

KEY = "runai_reconciliation"


class LeasingServer(Protocol):
    """The attributes of a leasing spawner that are used here."""

    user: Any
    name: str
    ready: bool
    pending: str | None
    lease: Any
    _log_name: str

    def adopt(self, session: SessionView) -> None: ...


class Reconciliation:
    """There is one for each hub. `begin` starts it, and it continues until everything is settled."""

    def __init__(self, users: Any, client: Callable[[], AsyncClient], log: Any) -> None:
        self._users = users
        self._client = client
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._wanted = False
        self._passing = asyncio.Lock()
        self._passed = asyncio.Event()

    @classmethod
    def of_hub(cls, settings: dict[str, Any], client: Callable[[], AsyncClient], log: Any) -> Reconciliation:
        """The reconciliation of the hub with these settings, shared by all spawners; the first caller starts it."""
        if KEY not in settings:
            settings[KEY] = cls(settings["users"], client, log)
            settings[KEY].begin()
        found: Reconciliation = settings[KEY]
        return found

    def begin(self) -> None:
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def settled(self, timeout: float) -> None:
        """Wait until old leases are closed, at most `timeout` seconds, so that their GPUs are free."""
        try:
            async with asyncio.timeout(timeout):
                await self._passed.wait()
                async with self._passing:
                    pass
        except TimeoutError:
            self._log.warning("The scheduler did not report its sessions within %s s.", timeout)

    async def _run(self) -> None:
        pause, longest = PAUSES
        while self._wanted:
            self._wanted = False
            try:
                async with self._passing, self._client() as client:
                    unsettled = await self._pass(client)
                self._passed.set()
            except RunaiError as error:
                self._log.debug("Leases are compared with servers later: %s", error.sentence)
                unsettled = True
            except Exception:
                self._log.exception("Leases could not be compared with servers")
                unsettled = True
            if unsettled:
                self._wanted = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)

    async def _pass(self, client: AsyncClient) -> bool:
        """Compare once; true where a starting or stopping server must be checked again."""
        sessions = await client.sessions()
        unsettled = False
        for session in sessions:
            spawner = self._spawner(session)
            if spawner is not None and spawner.pending:
                unsettled = True
            elif spawner is None or not spawner.ready:
                self._log.info("Closing the lease of %s/%s, whose server is gone", session.user, session.server)
                await client.close_session(session.id)
            elif spawner.lease is None:
                spawner.adopt(session)
        known = {session.id for session in sessions}
        for spawner in self._leasing():
            if spawner.ready and spawner.lease.id not in known:
                await self._open_again(client, spawner)
        return unsettled

    async def _open_again(self, client: AsyncClient, spawner: LeasingServer) -> None:
        """Open a session again for a running server that the scheduler does not know."""
        try:
            session = await client.open_session(
                SessionOpen(
                    user=spawner.user.name,
                    server=spawner.name,
                    gpus=spawner.lease.gpus,
                    groups=groups_of(spawner.user),
                )
            )
        except RunaiError as error:
            if error.status >= 500:
                raise
            self._log.error("The server of %s keeps running without its lease: %s", spawner._log_name, error.sentence)
            return
        if session.env.get("CUDA_VISIBLE_DEVICES") != spawner.lease.env.get("CUDA_VISIBLE_DEVICES"):
            self._log.error("The server of %s runs on other GPUs than its lease says", spawner._log_name)
        spawner.lease.id = session.id

    def _spawner(self, session: SessionView) -> LeasingServer | None:
        user = self._users.get(session.user)
        found: LeasingServer | None = user.spawners.get(session.server) if user else None
        return found

    def _leasing(self) -> list[LeasingServer]:
        spawners = (spawner for user in self._users.values() for spawner in user.spawners.values())
        return [spawner for spawner in spawners if getattr(spawner, "lease", None) is not None]


def groups_of(user: Any) -> list[str]:
    """The groups of one of the hub's users."""
    return sorted(group.name for group in user.groups)
