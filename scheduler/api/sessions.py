"""Sessions: the leases behind people's notebook servers."""

from __future__ import annotations

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.context import Context
from scheduler.api.convert import session_of
from scheduler.api.endpoint import endpoint
from scheduler.api.sessionviews import line_views, session_view
from scheduler.controller.sessionidle import ServerActivity
from scheduler.errors import Conflict, Forbidden, Invalid, NotFound, RunaiError, Unavailable
from scheduler.model import GroupName, Session, SessionId, duration
from scheduler.schema import SessionActivity, SessionList, SessionOpen, SessionOrders, SessionView


async def stop_server(api: Context, session: Session, by: str | None, why: str = "") -> None:
    """Stop a session's server, which ends the session; `by` is set if not its owner stops it, `why` if the scheduler
    does. Raises `Unavailable` where the hub does not."""
    controller, directory = api.controller, api.authenticator.directory
    controller.expect_stop(session.id, by, why)
    try:
        stopped = directory is not None and await directory.stop_server(session.user, session.server)
    except RunaiError:
        controller.expect_stop(session.id, None)
        raise
    if not stopped:  # without a server, no spawner closes it
        await controller.close_session(session.id, by)


class SessionsBase(ApiHandler):
    def view(self, session: Session) -> SessionView:
        grant = self.api.controller.session_grant(session)
        idle = self.api.controller.session_idleness.since(session, self.api.clock())
        return session_view(session, self.api.book, grant, idle)

    def find_session(self, session_id: SessionId) -> Session | None:
        """A session that holds GPUs, or waits in line for them."""
        line = (session for session in self.api.controller.sessions_in_line() if session.id == session_id)
        return self.api.book.sessions.get(session_id) or next(line, None)

    def in_line(self) -> list[tuple[Session, SessionView]]:
        return line_views(self.api.controller.sessions_in_line(), self.api.book)


class SessionsHandler(SessionsBase):
    @endpoint(
        "Lease GPUs for a user's server, or let it wait in line; the response says so, or why it gets none",
        Scope.SUBMIT,
        body=SessionOpen,
        answer=SessionView,
        status=201,
        refuses=(Invalid, Forbidden, Conflict, Unavailable),
    )
    async def post(self) -> None:
        sent = self.body(SessionOpen)
        if sent.user != self.caller.name and not self.caller.admin:
            raise Forbidden("You may open sessions only for yourself.", field="user")
        own = self.caller.groups if sent.user == self.caller.name else ()
        if sent.groups is not None and not self.caller.admin:
            raise Forbidden("Only an administrator may say which groups a user is in.", field="groups")
        groups = own if sent.groups is None else map(GroupName, sent.groups)
        if sent.since is not None and not self.caller.admin:
            raise Forbidden("Only an administrator may say since when a server waits.", field="since")
        asked = session_of(sent, now=self.api.clock())
        session = await self.api.controller.open_session(asked, groups, wait=sent.wait)
        views = (view for other, view in self.in_line() if other.id == session.id)
        self.answer(next(views, self.view(session)), 201)

    @endpoint(
        "The caller's sessions, and those in line; for an administrator, all of them", Scope.READ, answer=SessionList
    )
    async def get(self) -> None:
        access = self.access
        self.tell_event()
        seen = (session for session in self.api.book.sessions.values() if access.sees_session(session))
        line = [view for waiting, view in self.in_line() if access.sees_session(waiting)]
        self.answer(SessionList(sessions=[self.view(session) for session in seen], line=line))


class SessionHandler(SessionsBase):
    @endpoint("End a session and give its GPUs back", Scope.SUBMIT, answer=SessionView, refuses=(NotFound,))
    async def delete(self, session_id: SessionId) -> None:
        access = self.access
        session = access.own_session(self.find_session(session_id), session_id)
        by = access.stranger_to(session)
        self.answer(self.view(await self.api.controller.close_session(session_id, by)))


class StopHandler(SessionsBase):
    @endpoint(
        "Stop the notebook server of a session, which gives its GPUs back, or have it leave the line for GPUs",
        Scope.SUBMIT,
        status=204,
        refuses=(NotFound, Unavailable),
    )
    async def post(self, session_id: SessionId) -> None:
        access = self.access
        session = access.own_session(self.find_session(session_id), session_id)
        by = access.stranger_to(session)
        if session.id in self.api.book.sessions:
            await stop_server(self.api, session, by)
        else:
            await self.api.controller.close_session(session.id, by)
        self.set_status(204)
        self.finish()


class ActivityHandler(SessionsBase):
    @endpoint(
        "A notebook server tells whether its kernels and its user are active, and whether it has released its GPUs",
        Scope.SUBMIT,
        body=SessionActivity,
        answer=SessionOrders,
        refuses=(NotFound,),
    )
    async def post(self) -> None:
        sent, now = self.body(SessionActivity), self.api.clock()
        mine = (self.caller.name, sent.server)
        session = next((one for one in self.api.book.sessions.values() if (one.user, one.server) == mine), None)
        if session is None:
            raise NotFound(f"Your server {sent.server!r} has no session.")
        last, controller = None if sent.quiet_seconds is None else now - sent.quiet_seconds, self.api.controller
        controller.session_idleness.tell(session.id, ServerActivity(now, sent.busy, last))
        if session.claim and (sent.busy or (last or 0.0) > (session.placed or 0.0)):
            self._withdraw(session)
            await controller.recall_session(session.id)
        warning = self.api.book.stop_warnings.get(session.id)
        release = warning is not None and warning.asked and warning.takes_back and not sent.busy
        if release and sent.released and warning is not None:
            self._withdraw(session)
            await controller.take_back_session(session.id, f"Idle for {duration(now - warning.since)}.")
            release = False
        self.answer(SessionOrders(release=release))

    def _withdraw(self, session: Session) -> None:
        """It is no longer warned: what becomes of it is told next."""
        book = self.api.book
        book.stop_warnings = {id: each for id, each in book.stop_warnings.items() if id != session.id}
