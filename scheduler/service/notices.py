"""Makes notices of the durable events and delivers them, as each user has chosen.

What is told and when is `controller.noticing`; here are the clock, the events and the ways out.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.api.access import Caller
from scheduler.api.redaction import redacted
from scheduler.controller.noticing import batch, next_at, notice_of
from scheduler.errors import RunaiError
from scheduler.model import JobId, Notice, NoticeBox, NoticeChannel, UserName
from scheduler.store import EventRecord

if TYPE_CHECKING:
    from scheduler.api.context import Context
    from scheduler.service.delivery import Delivery

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds after which the state is tried again that could not be read or written."""

OFTEN = 1000
"""After this many events without a notice, the place that was reached becomes durable."""


class Notices:
    """Runs beside the service."""

    def __init__(self, api: Context, delivery: Delivery) -> None:
        self._api = api
        self._boxes = api.controller.notices
        self._delivery = delivery
        self._sending: dict[UserName, asyncio.Task[None]] = {}
        self._news = asyncio.Event()

    async def forever(self) -> None:
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._make())
                both.create_task(self._send())
        finally:
            for task in self._sending.values():
                task.cancel()
            self._delivery.close()

    # -- from events to notices ---------------------------------------------------------------------------------

    async def _make(self) -> None:
        while True:
            try:
                await self._follow()
                return
            except RunaiError as error:
                log.warning("Notices have to wait: %s", error.sentence)
            except Exception:
                log.exception("Notices could not be made; trying again.")
            await asyncio.sleep(AGAIN)

    async def _follow(self) -> None:
        passed = 0
        async for event in self._boxes.follow():
            passed += 1
            box = self._boxes.all.get(UserName(event.user)) if event.user is not None else None
            if box is not None and event.id > box.since and (notice := await self._notice(event, box)) is not None:
                await self._boxes.add(box.user, notice, event)
                self._news.set()
                passed = 0
            elif passed >= OFTEN and self._boxes.all:
                await self._boxes.noticed(event)
                passed = 0

    async def _notice(self, event: EventRecord, box: NoticeBox) -> Notice | None:
        """The notice of an event, with the names of those jobs that its user may see."""
        if box.choice.channel is NoticeChannel.NONE or event.kind != "job.state":
            return None
        job = await self._api.controller.job(JobId(event.subject))
        if job is None or notice_of(event, job, box.choice) is None:
            return None
        owner: Caller | None = None
        with suppress(RunaiError):  # without the owner's groups less is named
            owner = await self._api.authenticator.user(box.user)
        access = self._api.access(owner or Caller(box.user, frozenset()))
        data = dict(event.data or {})
        data["reason"] = redacted(str(data.get("reason", "")), job, self._api.book, access)
        return notice_of(replace(event, data=data), job, box.choice)

    # -- out ----------------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        while True:
            self._news.clear()
            now, waits = self._api.clock(), [60.0]
            for box in list(self._boxes.all.values()):
                at = next_at(box)
                if at is None or box.user in self._sending:
                    continue
                if at > now:
                    waits.append(at - now)
                else:
                    self._sending[box.user] = asyncio.create_task(self._deliver(box))
            with suppress(TimeoutError):
                async with asyncio.timeout(min(waits)):
                    await self._news.wait()

    async def _deliver(self, box: NoticeBox) -> None:
        """Deliver the next message of a user, and record what happened."""
        try:
            notices, problem = batch(box), ""
            try:
                await self._delivery.send(box.choice, notices)
            except RunaiError as error:
                problem = error.sentence
            except Exception:
                log.exception("A notice for %s could not be sent.", box.user)
                problem = "The scheduler had an internal error; see its log."
            if not problem:
                await self._boxes.delivered(box.user, notices)
            elif given_up := await self._boxes.failed(box.user, box.choice, problem):
                log.warning("%d notices for %s are given up after a day: %s", given_up, box.user, problem)
        except RunaiError as error:
            log.warning("The delivery of a notice is not recorded, and will be repeated: %s", error.sentence)
            await asyncio.sleep(AGAIN)
        finally:
            self._sending.pop(box.user, None)
            self._news.set()
