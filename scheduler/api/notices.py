"""`/me/notices`: where the caller is told of their jobs outside the browser. Nobody else sees or changes it."""

from __future__ import annotations

from urllib.parse import urlsplit

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.convert import new_id
from scheduler.api.endpoint import endpoint
from scheduler.errors import Invalid, TooMany, Unavailable
from scheduler.model import JobId, Notice, NoticeBox, NoticeChannel, NoticeChoice
from scheduler.schema import NoticesChoice, NoticesTested, NoticesView


class NoticesHandler(ApiHandler):
    @endpoint("Where the caller is told of their jobs by e-mail or webhook", Scope.SUBMIT, answer=NoticesView)
    async def get(self) -> None:
        self._answer(self.api.controller.notices.of(self.caller.name))

    @endpoint(
        "Choose where the caller is told of their jobs from now on, and of what",
        Scope.SUBMIT,
        body=NoticesChoice,
        answer=NoticesView,
        refuses=(Invalid, Unavailable),
    )
    async def put(self) -> None:
        sent = self.body(NoticesChoice)
        saved = self.api.controller.notices.of(self.caller.name).choice
        nowhere = sent.channel is NoticeChannel.NONE
        address = "" if nowhere else (sent.address or "").strip()
        if sent.address is None and sent.channel is saved.channel:
            address = saved.address
        choice = NoticeChoice(sent.channel, address, tuple(dict.fromkeys(sent.events)), sent.shortest_success)
        if not nowhere:
            if self.api.courier is None:
                raise Invalid("This scheduler delivers no notices.", field="channel")
            self.api.courier.check(choice)
        self._answer(await self.api.controller.notices.choose(self.caller.name, choice))

    def _answer(self, box: NoticeBox) -> None:
        choice = box.choice
        self.answer(
            NoticesView(
                channel=choice.channel,
                address=_shown(choice),
                events=list(choice.events),
                shortest_success=choice.shortest_success,
                waiting=len(box.waiting),
                problem=box.problem,
            )
        )


def _shown(choice: NoticeChoice) -> str:
    if choice.channel in (NoticeChannel.NONE, NoticeChannel.EMAIL):
        return choice.address
    parts = urlsplit(choice.address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…"


class NoticesTestHandler(ApiHandler):
    @endpoint(
        "Send the caller a test notice, and say what happened",
        Scope.SUBMIT,
        answer=NoticesTested,
        refuses=(Invalid, TooMany, Unavailable),
    )
    async def post(self) -> None:
        boxes, courier = self.api.controller.notices, self.api.courier
        choice = boxes.of(self.caller.name).choice
        if choice.channel is NoticeChannel.NONE or courier is None:
            raise Invalid("You have not chosen yet where notices go.", field="channel")
        await boxes.count(self.caller.name)
        text = "This is a test: notices of your jobs arrive here."
        notice = Notice(f"test:{new_id('n')}", None, JobId(""), "", "", text, self.api.clock())
        try:
            await courier.send(choice, (notice,))
        except (Invalid, Unavailable) as error:
            self.answer(NoticesTested(delivered=False, message=error.sentence))
        else:
            self.answer(NoticesTested(delivered=True, message="The test notice was accepted."))
