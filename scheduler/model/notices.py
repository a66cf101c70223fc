"""Notices outside the browser: what a user has chosen, and what is still to be delivered."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.model.names import JobId, UserName


class NoticeKind(StrEnum):
    """What a notice is about. `cancelled` and `paused` are by others; `warned` precedes `paused`, and `resumed` follows
    it."""

    FAILED = "failed"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    WARNED = "warned"
    PAUSED = "paused"
    RESUMED = "resumed"


class NoticeChannel(StrEnum):
    NONE = "none"
    EMAIL = "email"
    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"


@dataclass(frozen=True, slots=True)
class NoticeChoice:
    """`address` is an e-mail address or a URL, which is a secret. `shortest_success` is the shortest time, in seconds
    from submission to end, after which a success is told."""

    channel: NoticeChannel = NoticeChannel.NONE
    address: str = field(default="", repr=False)
    events: tuple[NoticeKind, ...] = tuple(NoticeKind)
    shortest_success: float = 600.0


@dataclass(frozen=True, slots=True)
class Notice:
    """`key` is the same whenever this notice is delivered; `at` is in seconds since the epoch. A test notice has no
    kind and no job."""

    key: str
    kind: NoticeKind | None
    job: JobId
    name: str
    project: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class NoticeBox:
    """A user's choice, and the notices that have not been delivered yet.

    Events up to the id `since` are not told. `sent` are the times of the latest deliveries. After `tries` failures in a
    row, for the reason `problem`, the next attempt is at `due`.
    """

    user: UserName
    choice: NoticeChoice
    since: int
    waiting: tuple[Notice, ...] = ()
    sent: tuple[float, ...] = ()
    tries: int = 0
    due: float = 0.0
    problem: str = ""
