"""Sessions: leases for people's notebook servers.

A session without a lease is not stored: its caller is still there to ask again. A lease is durable before it is
answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from scheduler.controller import admission, notices, session_lifecycle, sessionline
from scheduler.controller.seats import Closed, Seats
from scheduler.controller.session_lifecycle import Instruction, Refuse, SeatSession, Step, UnseatSession
from scheduler.controller.statewriter import StateWriter
from scheduler.engines.base import Engine, Grant, Traits, addressed
from scheduler.engines.contract import visible
from scheduler.errors import Conflict, NotFound, RunaiError, Unavailable
from scheduler.model import (
    GroupName,
    Node,
    NodeName,
    Session,
    SessionId,
    SessionState,
    UserName,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Decision
from scheduler.policy.blocking import sentence
from scheduler.store import AuditRecord, ChangeSet, Store


@dataclass(frozen=True, slots=True)
class Waiting:
    """A requested session, the answer that its caller waits for, and when the wait ends.

    `ended`: its end is decided and is being written; no plan may lease it again. `line`: its caller stands in line and
    asks again; `passed`: a plan could not place it.
    """

    session: Session
    answer: asyncio.Future[Session]
    deadline: asyncio.TimerHandle
    ended: bool = False
    line: bool = False
    passed: bool = False


class Sessions:
    """`wake` is called when a session requests or has released GPUs."""

    def __init__(
        self,
        writer: StateWriter,
        store: Store,
        engine: Engine,
        traits: Traits,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._store = store
        self._traits = traits
        self._seats = Seats(engine, traits)
        self.grant = self._seats.grant
        self._wake = wake
        self._clock = clock
        self._waiting: dict[SessionId, Waiting] = {}
        self._left: dict[tuple[UserName, str], float] = {}
        """Since when a server had waited that has left the line: its caller may not know it yet."""
        self._notices: dict[str, Mapping[SessionId, str]] = {}
        self._stoppers: dict[SessionId, tuple[str | None, str]] = {}

    async def open(self, session: Session, groups: Iterable[GroupName] = (), *, wait: bool = False) -> Session:
        """Lease GPUs to a user's server. Further calls for the same user and server return the same lease. `groups` are
        the user's in JupyterHub.

        `wait`: if no GPUs are free, it stands in line, in the order of `requested`, as long as this call is repeated
        within `RENEWAL`; it returns the request if there is no lease within `HOLD`. Raises `RunaiError` with the reason
        where it cannot be placed now, or ever if it waits.
        """
        admission.admit_text(id=session.id, user=session.user, server=session.server)
        admission.admit_name("user", session.user)
        decided = self._writer.decided
        for leased in decided.sessions.values():
            if (leased.user, leased.server) == (session.user, session.server):
                await self._writer.durable()
                await self._seats.seat(leased, self._nodes)
                return leased
        admission.admit_traits(session.request, self._traits)
        groups = tuple(sorted(groups))
        quota = decided.pool.build_quota(session.user, groups)
        session = replace(session, groups=groups, request=replace(session.request, build_quota=quota.gpus))
        admission.admit_session(session, decided.pool, decided.nodes)
        if wait and self._left.pop(session.server_key, None) == session.requested:
            raise Conflict(session_lifecycle.LEFT)
        if wait and (over := sessionline.over_quota(session, [*decided.sessions.values(), *self.in_line()])):
            raise Conflict(sentence(over))
        if not wait and (others := len(self.in_line())):
            ahead = "Another server waits" if others == 1 else f"{others} other servers wait"
            raise Unavailable(f"{ahead} in line for GPUs to build on.")
        answer = self._request(session, wait)
        self._wake()
        if wait:
            await asyncio.wait({answer}, timeout=sessionline.HOLD)
            if not answer.done():
                return next((each for each in self.in_line() if each.server_key == session.server_key), session)
        return await asyncio.shield(answer)

    async def close(self, session_id: SessionId, by: str | None = None) -> Session:
        """Close a session and release its GPUs; `by` is set if that is not its owner. Closing it again does nothing."""
        if (waiting := self._waiting.get(session_id)) is not None and waiting.line:
            self._left[waiting.session.server_key] = waiting.session.requested
            now = self._clock()
            step = session_lifecycle.leave(waiting.session, now)
            self._take(waiting.session, step)
            if session_id not in self._writer.decided.sessions:
                if audit := notices.removed(step.session, by, now):
                    self._writer.commit(ChangeSet(audit=audit))
                    await self._writer.durable()
                return step.session
        if session_id in self._writer.decided.sessions:
            await self._writer.durable()
            unseating = self._seats.run(self._seats.unseat(session_id))
            await asyncio.wait({unseating})
            if unseating.cancelled():
                raise Unavailable("The scheduler is stopping; try again when it is running.")
        session = self._writer.decided.sessions.get(session_id)
        if session is None:
            await self._writer.durable()
            ended = await self._store.session(session_id)
            if ended is None:
                raise NotFound(f"There is no session {session_id}.")
            return ended
        now, (stopper, why) = self._clock(), self._stoppers.pop(session_id, (None, ""))
        by, why = (by, "") if by else (stopper, why)
        step = session_lifecycle.close(session, now, by, why)
        self._take(session, step, notices.removed(session, by, now, why))
        await self._writer.durable()
        return step.session

    def expect_stop(self, session_id: SessionId, by: str | None, why: str = "") -> None:
        """Somebody else than its owner, or the scheduler, which says why, stops a session's server (neither: it did not
        come to that): that is on record when the session is closed."""
        if by is None and not why:
            self._stoppers.pop(session_id, None)
        elif session_id in self._writer.decided.sessions:
            self._stoppers[session_id] = by, why

    async def warn(self, notices: Mapping[SessionId, str], kind: str = "stop") -> None:
        """Set the notices of that kind, and withdraw all others of it; durable when it returns."""
        self._notices[kind] = notices
        for session in list(self._writer.decided.sessions.values()):
            of_session = (each.get(session.id, "") for _, each in sorted(self._notices.items()))
            self._take(session, session_lifecycle.warn(session, " ".join(filter(None, of_session))))
        await self._writer.durable()

    async def lend(self, session_id: SessionId, why: str) -> None:
        """Let jobs use an idle session's GPUs until it is used again; durable when it returns."""
        await self._replace(session_id, session_lifecycle.lend, why)

    async def take_back(self, session_id: SessionId, why: str) -> None:
        """Take back an idle session's GPUs, while its server keeps running; durable when it returns."""
        await self._replace(session_id, session_lifecycle.take_back, why)

    async def recall(self, session_id: SessionId) -> None:
        """A session is used again: it gets back what it lends as soon as the jobs there have stopped."""
        if (session := self._writer.decided.sessions.get(session_id)) is not None:
            self._take(session, session_lifecycle.recall(session, self._clock()))
            self._wake()
            await self._writer.durable()

    async def _replace(self, id: SessionId, change: Callable[[Session, float], Step], why: str) -> None:
        if (session := self._writer.decided.sessions.get(id)) is not None:
            self._place(session, change, why)
            self._wake()
            await self._writer.durable()

    def _place(self, session: Session, change: Callable[[Session, float], Step], why: str = "") -> None:
        now = self._clock()
        step = change(session, now)
        self._take(session, step, notices.moved(session, step.session, why, now))

    def granted(self, session: Session) -> Grant:
        """What the session's server must have; nothing until the session holds a lease."""
        grant = self._seats.grant(session.id)
        if grant is not None:
            return grant
        if session.state is not SessionState.LEASED:
            return Grant({})
        # After a restart, the engine has not yet assigned its GPUs again.
        return Grant(visible(addressed(session.promised, self._traits), self._nodes))

    async def recover(self) -> None:
        """Have the engine assign the GPUs of all leases, once it is open."""
        await self._seats.recover(self._writer.decided.sessions.values(), self._nodes)

    @property
    def busy(self) -> bool:
        """Whether a call to the engine is under way."""
        return self._seats.busy

    async def idle(self) -> None:
        """Wait until all calls to the engine are done."""
        await self._seats.idle()

    async def abandon(self) -> None:
        """The scheduler stops: refuse the waiting sessions. Leases are kept."""
        await self._seats.close()
        for waiting in list(self._waiting.values()):
            self._take(waiting.session, session_lifecycle.abandon(waiting.session, self._clock()))

    # -- what a plan needs to know, and what it decides ---------------------------------------------------

    def waiting(self) -> Collection[SessionId]:
        """The sessions that wait for a lease, the oldest first."""
        return [each.session.id for each in self._unleased()]

    def requested(self) -> Iterator[Workload]:
        """Those that the next plan may place, as the policy sees them."""
        requests = ((each.session, each.line and each.passed) for each in self._unleased())
        return (session.workload() for session in sessionline.offered(requests))

    def in_line(self) -> list[Session]:
        """The sessions that stand in line, the first one first."""
        found = (each.session for each in self._unleased() if each.line)
        return sorted(found, key=lambda session: (session.requested, session.id))

    def _unleased(self) -> Iterator[Waiting]:
        leased = self._writer.decided.sessions
        return (each for each in self._waiting.values() if not each.ended and each.session.id not in leased)

    def expects(self, session_id: SessionId) -> bool:
        """Whether a session waits for GPUs: those of its lease, or those that it has lent."""
        session = self._writer.decided.sessions.get(session_id)
        return session_id in self.waiting() or (session is not None and session.recalled is not None)

    def lease(self, session_id: SessionId, placement: tuple[WorkerPlacement, ...]) -> None:
        """A plan leases GPUs to a waiting session, or gives one back what it lent."""
        if (lent := self._writer.decided.sessions.get(session_id)) is not None:
            self._place(lent, session_lifecycle.restore)
            return
        session = self._waiting[session_id].session
        self._take(session, session_lifecycle.lease(session, placement, self._clock()))
        self._wake()  # for the next one in line

    def pass_over(self, session_id: SessionId, decision: Decision) -> None:
        """A plan gives a waiting session no GPUs."""
        waiting = self._waiting[session_id]
        self._waiting[session_id] = replace(waiting, passed=True)
        step = session_lifecycle.pass_over(waiting.session, decision, self._clock(), waits=waiting.line)
        self._take(waiting.session, step)

    def observe_nodes(self, nodes: Iterable[Node]) -> None:
        """These nodes exist; leases on any other node end."""
        observe = partial(session_lifecycle.observe_nodes, nodes={node.name: node for node in nodes})
        for session in list(self._writer.decided.sessions.values()):
            self._place(session, observe, "A GPU that it lent is gone.")

    # -- steps --------------------------------------------------------------------------------------------

    def _take(self, before: Session, step: Step, audit: tuple[AuditRecord, ...] = ()) -> None:
        """Apply a step: its instructions are carried out once it is durable. A request without a lease is not
        stored."""
        session, now = step.session, self._clock()
        do = [partial(self._do, session, instruction) for instruction in step.do]
        if before.state is SessionState.REQUESTED and session.state is not SessionState.LEASED:
            if (waiting := self._waiting.get(session.id)) is not None:
                self._waiting[session.id] = replace(waiting, session=session)
            for each in do:
                each()
        elif session != before:
            event = notices.session_state(session, now)
            self._writer.commit(ChangeSet(sessions=(session,), events=(event,), audit=audit), *do)
            if session.state is SessionState.ENDED:
                if (waiting := self._waiting.get(session.id)) is not None:
                    self._waiting[session.id] = replace(waiting, ended=True)
                self._wake()

    def _do(self, session: Session, instruction: Instruction) -> None:
        if isinstance(instruction, UnseatSession):
            self._seats.run(self._seats.unseat(session.id))
            return
        waiting = self._waiting.get(session.id)
        if waiting is None:
            return
        waiting.deadline.cancel()
        if isinstance(instruction, SeatSession):
            self._seats.run(self._seat(session))
            return
        del self._waiting[session.id]
        self._wake()
        if not waiting.answer.done():
            waiting.answer.set_exception(instruction.error)

    async def _seat(self, session: Session) -> None:
        """Have the engine assign a session's GPUs, and answer its caller."""
        try:
            await self._seats.seat(session, self._nodes)
        except Exception as error:
            refusal = error if isinstance(error, RunaiError) else Unavailable(f"The engine failed: {error}.")
            leased = self._writer.decided.sessions.get(session.id)
            if leased is None or isinstance(error, Closed):  # its end is decided elsewhere
                self._do(session, Refuse(refusal))
            else:
                self._take(leased, session_lifecycle.refuse_seat(leased, refusal, self._clock()))
        else:
            answer = self._waiting.pop(session.id).answer
            if not answer.done():
                answer.set_result(session)

    @property
    def _nodes(self) -> Mapping[NodeName, Node]:
        return {node.name: node for node in self._writer.decided.nodes}

    # -- requests -----------------------------------------------------------------------------------------

    def _request(self, session: Session, wait: bool) -> asyncio.Future[Session]:
        """The lease, once there is one; all callers for this user's server share the answer."""
        loop = asyncio.get_running_loop()
        for id, known in self._waiting.items():
            if known.session.server_key == session.server_key:
                if wait and not known.answer.done():
                    known.deadline.cancel()
                    deadline = loop.call_later(sessionline.RENEWAL, self._time_out, id)
                    self._waiting[id] = replace(known, deadline=deadline, line=True)
                return known.answer
        answer: asyncio.Future[Session] = loop.create_future()
        answer.add_done_callback(_heard)
        patience = sessionline.RENEWAL if wait else session_lifecycle.PATIENCE
        deadline = loop.call_later(patience, self._time_out, session.id)
        self._waiting[session.id] = Waiting(session, answer, deadline, line=wait)
        return answer

    def _time_out(self, session_id: SessionId) -> None:
        session = self._waiting[session_id].session
        self._take(session, session_lifecycle.time_out(session, self._clock()))


def _heard(answer: asyncio.Future[Session]) -> None:
    """The caller may have gone; a refusal that nobody reads is not an error."""
    if not answer.cancelled():
        answer.exception()
