"""The notices that users have chosen, and those that wait for delivery; each change is durable when it returns.

What must hold, over a `kill -9` at any instant: a notice and the event up to which notices were made become durable in
the same transaction, so that no event is missed and none is told twice; a notice waits until its delivery is durable,
so that it is delivered at least once, each time with the same key.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from scheduler.controller import noticing
from scheduler.controller.statewriter import StateWriter
from scheduler.errors import TooMany
from scheduler.model import Notice, NoticeBox, NoticeChoice, UserName
from scheduler.store import ChangeSet, EventRecord

Change = Callable[[NoticeBox], NoticeBox]


class NoticeBoxes:
    """The boxes of all users."""

    def __init__(self, writer: StateWriter, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._clock = clock

    @property
    def all(self) -> Mapping[UserName, NoticeBox]:
        return self._writer.book.notice_boxes

    def of(self, user: UserName) -> NoticeBox:
        return self.all.get(user) or NoticeBox(user, NoticeChoice(), 0)

    def follow(self) -> AsyncGenerator[EventRecord, None]:
        """The events of which notices may still have to be made."""
        return self._writer.feed.follow(self._writer.book.noticed)

    async def choose(self, user: UserName, choice: NoticeChoice) -> NoticeBox:
        last, noticed = self._writer.book.last_event, self._writer.decided.noticed
        return await self._change(user, lambda box: noticing.chosen(box, choice, last), noticed)

    async def add(self, user: UserName, notice: Notice, event: EventRecord) -> None:
        """Let a notice wait. Notices have been made of all events up to this one."""
        await self._change(user, lambda box: noticing.added(box, notice), event.id)

    async def noticed(self, event: EventRecord) -> None:
        """Notices have been made of all events up to this one."""
        await self._writer.durable(self._writer.commit(ChangeSet(noticed=event.id)))

    async def count(self, user: UserName) -> None:
        """A test counts as a message; raises `TooMany` where there were too many in the last hour."""
        now = self._clock()
        recent = [at for at in self.of(user).sent if now - noticing.HOUR < at <= now]
        if len(recent) >= noticing.MOST_PER_HOUR:
            raise TooMany(f"You get at most {noticing.MOST_PER_HOUR} messages in an hour; try again later.")
        await self._change(user, lambda box: noticing.counted(box, now))

    async def delivered(self, user: UserName, notices: Sequence[Notice]) -> None:
        await self._change(user, lambda box: noticing.delivered(box, notices, self._clock()))

    async def failed(self, user: UserName, choice: NoticeChoice, problem: str) -> int:
        """Returns how many notices have been given up; none where the user has chosen something else meanwhile."""
        spread, given_up = noticing.spread(), 0

        def change(box: NoticeBox) -> NoticeBox:
            nonlocal given_up
            if (box.choice.channel, box.choice.address) != (choice.channel, choice.address):
                return box
            after = noticing.failed(box, problem, self._clock(), spread)
            given_up = len(box.waiting) - len(after.waiting)
            return after

        await self._change(user, change)
        return given_up

    async def _change(self, user: UserName, change: Change, noticed: int | None = None) -> NoticeBox:
        before = self._writer.decided.notice_boxes.get(user) or NoticeBox(user, NoticeChoice(), 0)
        after = change(before)
        await self._writer.durable(self._writer.commit(ChangeSet(notice_boxes=(after,), noticed=noticed)))
        return after
