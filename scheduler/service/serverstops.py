"""Warns the users of notebook servers that are idle or run for too long, and stops the servers, as the pool's settings
say.

The decision is `controller.serverstops`; here are the clock and the hub.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from scheduler.api.sessions import stop_server
from scheduler.controller.idleness import LOOK
from scheduler.controller.serverstops import StopWarning, postponed, server_stops
from scheduler.errors import RunaiError
from scheduler.model import SessionState

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
        """Warn, withdraw warnings, and stop servers, as of now."""
        book, controller, now = self._api.book, self._api.controller, self._api.clock()
        since = {id: controller.session_idleness.since(each, now) for id, each in book.sessions.items()}
        idle = {id: at for id, at in since.items() if at is not None}
        started = {
            id: each.started
            for id, each in book.sessions.items()
            if each.state is SessionState.LEASED and each.started is not None
        }
        found = server_stops(book.stop_warnings, idle, started, book.pool.settings, now)
        before, book.stop_warnings = book.stop_warnings, found.warnings
        try:
            await controller.warn_sessions({id: warning.sentence() for id, warning in found.warnings.items()})
        except RunaiError:
            book.stop_warnings = before  # the new warnings reached nobody
            raise
        await asyncio.gather(*(self._stop(warning, now) for warning in found.due))

    async def _stop(self, warning: StopWarning, now: float) -> None:
        api, id = self._api, warning.session
        session = api.book.sessions.get(id)
        if session is None:
            return
        try:
            await stop_server(api, session, None, warning.stopped(now))
        except RunaiError as error:
            log.warning("The server of session %s was not stopped: %s", id, error.sentence)
        else:
            again = postponed(warning, api.book.pool.settings.session_idle_grace, now)
            api.book.stop_warnings = {**api.book.stop_warnings, id: again}
