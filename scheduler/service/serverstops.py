"""Warns the users of notebook servers that are idle or run for too long, lends or takes back the GPUs of idle ones, and
stops the servers, as the pool's settings say.

The decision is `controller.serverstops`; here are the clock and the hub.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.api.sessions import stop_server
from scheduler.controller.idleness import LOOK
from scheduler.controller.serverstops import IdleServer, StopWarning, asked, postponed, server_stops
from scheduler.controller.sessionidle import FRESH
from scheduler.errors import RunaiError
from scheduler.model import GpuKey, IdleAction, Session, SessionId, SessionState, duration

if TYPE_CHECKING:
    from scheduler.api.context import Context

log = logging.getLogger(__name__)


class ServerStopper:
    """Runs beside the service."""

    def __init__(self, api: Context) -> None:
        self._api = api

    async def forever(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("Notebook servers to be stopped could not be looked for; trying again.")
            await asyncio.sleep(LOOK)

    async def look(self) -> None:
        """Warn, withdraw warnings, lend and take back GPUs, and stop servers, as of now."""
        book, controller, now = self._api.book, self._api.controller, self._api.clock()
        started = {
            id: each.started
            for id, each in book.sessions.items()
            if each.state is SessionState.LEASED and each.started is not None
        }
        found = server_stops(book.stop_warnings, dict(self._idle(now)), started, book.pool.settings, now)
        before, book.stop_warnings = book.stop_warnings, found.warnings
        try:
            await controller.warn_sessions({id: warning.sentence() for id, warning in found.warnings.items()})
        except RunaiError:
            book.stop_warnings = before  # the new warnings reached nobody
            raise
        for warning in found.lend:
            if not self._in_use(book.sessions[warning.session]):
                await controller.lend_session(warning.session, f"Idle for {duration(now - warning.since)}.")
        await asyncio.gather(*(self._act(warning, now) for warning in found.due))

    def _idle(self, now: float) -> Iterator[tuple[SessionId, IdleServer]]:
        """The idle servers. A server in a pod holds its GPUs until it stops."""
        book, api = self._api.book, self._api
        for id, session in book.sessions.items():
            since = api.controller.session_idleness.since(session, now)
            rules = book.pool.settings.idle_rules(session.user, session.groups)
            if api.traits.picks_gpus:
                rules = replace(rules, lend=0.0, action=IdleAction.STOP)
            if since is not None and (rules.action is IdleAction.STOP or session.counted):
                yield id, IdleServer(since, rules, session.placed if session.claim else None)

    def _in_use(self, session: Session) -> bool:
        """Whether a process other than a job's holds memory of its GPUs: a job could not use it."""
        samples = self._api.inventory.samples(self._api.book.nodes)
        keys = [GpuKey((worker.node, gpu)) for worker in session.placement for gpu in worker.gpus]
        return any(
            process.job_id is None and process.user in (None, session.user)
            for key in keys
            if key in samples
            for process in samples[key].processes
        )

    async def _act(self, warning: StopWarning, now: float) -> None:
        api, id = self._api, warning.session
        session = api.book.sessions.get(id)
        if session is None:
            return
        if warning.takes_back and not warning.asked:
            self._replace(asked(warning, FRESH, now))
            return
        try:
            await stop_server(api, session, None, warning.done(now))
        except RunaiError as error:
            log.warning("The server of session %s was not stopped: %s", id, error.sentence)
        else:
            self._replace(postponed(warning, api.book.pool.settings.session_idle_grace, now))

    def _replace(self, warning: StopWarning) -> None:
        book = self._api.book
        book.stop_warnings = {**book.stop_warnings, warning.session: warning}
