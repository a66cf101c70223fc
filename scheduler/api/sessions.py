"""Sessions: the leases behind people's notebook servers."""

from __future__ import annotations

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.convert import session_of
from scheduler.api.endpoint import endpoint
from scheduler.api.sessionviews import session_view
from scheduler.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from scheduler.model import Session, SessionId
from scheduler.schema import SessionList, SessionOpen, SessionView


class SessionsBase(ApiHandler):
    def view(self, session: Session) -> SessionView:
        grant = self.api.controller.session_grant(session)
        return session_view(session, {node.name: node for node in self.api.book.nodes}, grant)


class SessionsHandler(SessionsBase):
    @endpoint(
        "Lease GPUs for a user's server; answers when they are leased, or with the reason why not",
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
        session = await self.api.controller.open_session(session_of(sent, now=self.api.clock()))
        self.answer(self.view(session), 201)

    @endpoint("The caller's sessions; an administrator's: all", Scope.READ, answer=SessionList)
    async def get(self) -> None:
        access = self.access
        self.tell_event()
        seen = (session for session in self.api.book.sessions.values() if access.sees_session(session))
        self.answer(SessionList(sessions=[self.view(session) for session in seen]))


class SessionHandler(SessionsBase):
    @endpoint("End a session and give its GPUs back", Scope.SUBMIT, answer=SessionView, refuses=(NotFound,))
    async def delete(self, session_id: SessionId) -> None:
        access = self.access
        session = access.own_session(self.api.book.sessions.get(session_id), session_id)
        by = access.stranger_to(session)
        self.answer(self.view(await self.api.controller.close_session(session_id, by)))
