"""Notices by e-mail and webhook. Units as in `schema.wire`."""

from __future__ import annotations

from pydantic import Field

from scheduler.model import NoticeChannel, NoticeKind
from scheduler.schema.wire import Wire


class NoticesChoice(Wire):
    """The body of `PUT /me/notices`. `cancelled` and `paused` are by others; `warned` precedes `paused`,
    `resumed` follows it."""

    channel: NoticeChannel = Field(description="where notices go; none: nowhere")
    address: str | None = Field(
        None,
        max_length=2000,
        description="an e-mail address, or the URL of a webhook; null: the saved one of the channel",
    )
    events: list[NoticeKind] = Field(list(NoticeKind), max_length=20, description="what to tell")
    shortest_success: float = Field(
        600, ge=0, le=31_536_000, description="tell a success only if it took at least this long from its submission"
    )


class NoticesView(NoticesChoice):
    """The choice of the caller, which nobody else sees."""

    address: str = Field(description="an e-mail address, or the host of a webhook, whose URL is a secret")
    waiting: int = Field(description="notices that have not been delivered yet")
    problem: str = Field(description="why the last delivery failed; empty: it did not")


class NoticesTested(Wire):
    delivered: bool
    message: str = Field(description="what happened")
