"""Which events of a job its owner is told of, in which words, and when these notices are delivered.

Pure: events, choices and times in, notices and boxes out. What must hold:
- a box changes only with what happened: an event adds at most one notice, a delivery removes exactly what it delivered;
- a user gets at most `MOST_PER_HOUR` messages in any hour; what happens meanwhile is told together;
- a notice that cannot be delivered for `GIVE_UP` seconds is dropped, and its user sees why.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from scheduler.controller.pausenotices import warning_of
from scheduler.model import (
    Attempt,
    Ending,
    Job,
    JobState,
    Notice,
    NoticeBox,
    NoticeChannel,
    NoticeChoice,
    NoticeKind,
    duration,
)
from scheduler.store import EventRecord

MOST_PER_HOUR = 20
HOUR = 3600.0

ALONE = 3
"""Up to this many waiting notices are delivered one by one, more of them in one message."""

MOST_WAITING = 500
"""The most notices of a user that wait; the oldest are dropped first."""

GIVE_UP = 86_400.0
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 3600.0

LISTED = 20
"""The most notices that a message lists."""


# -- from an event to a notice ----------------------------------------------------------------------------------


def notice_of(event: EventRecord, job: Job, choice: NoticeChoice) -> Notice | None:
    """What the owner of `job` is told of one of its events, if anything."""
    kind = kind_of(event, job)
    if kind is None or choice.channel is NoticeChannel.NONE or kind not in choice.events:
        return None
    if kind is NoticeKind.SUCCEEDED and (_took(job) < choice.shortest_success or job.program.parameters):
        return None  # the trials of a search are told only if they fail
    text = _text(kind, job, str((event.data or {}).get("reason", "")))
    return Notice(f"{job.id}:{event.id}", kind, job.id, job.name, job.request.project, text, event.at)


def kind_of(event: EventRecord, job: Job) -> NoticeKind | None:
    data = event.data or {}
    if event.kind != "job.state":
        return None
    state, was, reason = JobState(data["state"]), data.get("was"), str(data.get("reason", ""))
    attempts = job.attempts[: data.get("attempt", 0)]
    match state:
        case JobState.RUNNING if data.get("warned"):
            return NoticeKind.WARNED
        case _ if state == was:
            return None
        case JobState.FAILED:
            return NoticeKind.FAILED
        case JobState.SUCCEEDED:
            return NoticeKind.SUCCEEDED
        case JobState.CANCELLED if reason != "Cancelled.":
            return NoticeKind.CANCELLED
        case JobState.STOPPING if attempts and is_interruption(attempts[-1]):
            return NoticeKind.PAUSED
        case JobState.PAUSED if was == JobState.QUEUED and reason.startswith("Paused by "):
            return NoticeKind.PAUSED
        case JobState.RUNNING if was == JobState.STARTING and len(attempts) > 1 and is_interruption(attempts[-2]):
            return NoticeKind.RESUMED
    return None


def is_interruption(attempt: Attempt) -> bool:
    """Whether others stopped this attempt of a job that continues."""
    by_somebody = attempt.ending is Ending.STOPPED and attempt.reason.startswith(("Paused by ", "Pausing by "))
    return attempt.ending is Ending.PREEMPTED or by_somebody


def _took(job: Job) -> float:
    return (job.ended or job.submitted) - job.submitted


def _text(kind: NoticeKind, job: Job, reason: str) -> str:
    match kind:
        case NoticeKind.FAILED:
            return f"{job.name} failed: {reason}"
        case NoticeKind.SUCCEEDED:
            return f"{job.name} succeeded after {duration(_took(job))}."
        case NoticeKind.CANCELLED if reason.startswith("Cancelled by "):
            return f"{job.name} was {_lower(reason)}"
        case NoticeKind.CANCELLED:
            return f"{job.name} was cancelled: {reason}"
        case NoticeKind.WARNED:
            return f"{job.name} {_lower(warning_of(reason))}"
        case NoticeKind.PAUSED if reason.startswith(("Paused by ", "Pausing by ")):
            return f"{job.name} is paused {reason[reason.index('by ') :]}"
        case NoticeKind.PAUSED:
            return f"{job.name} is being paused: {reason} It resumes when GPUs are free again."
        case NoticeKind.RESUMED:
            return f"{job.name} is running again."


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


# -- the box ----------------------------------------------------------------------------------------------------


def chosen(box: NoticeBox, choice: NoticeChoice, last_event: int) -> NoticeBox:
    """After a choice, which counts for what happens from now on; another address gets nothing of the former one."""
    if (choice.channel, choice.address) != (box.choice.channel, box.choice.address):
        return NoticeBox(box.user, choice, last_event, sent=box.sent)
    return replace(box, choice=choice)


def added(box: NoticeBox, notice: Notice) -> NoticeBox:
    return replace(box, waiting=(*box.waiting, notice)[-MOST_WAITING:])


def next_at(box: NoticeBox) -> float | None:
    """When the next message may be sent; `None` where nothing waits."""
    if not box.waiting:
        return None
    full = len(box.sent) >= MOST_PER_HOUR
    return max(box.due, box.sent[-MOST_PER_HOUR] + HOUR if full else 0.0)


def batch(box: NoticeBox) -> tuple[Notice, ...]:
    """The notices of the next message, the oldest first."""
    limited = len(box.sent) >= MOST_PER_HOUR - 1
    return box.waiting[:1] if len(box.waiting) <= ALONE and not limited else box.waiting


def counted(box: NoticeBox, now: float) -> NoticeBox:
    """One more message has been sent."""
    return replace(box, sent=(*(at for at in box.sent if now - HOUR < at <= now), now))


def delivered(box: NoticeBox, sent: Sequence[Notice], now: float) -> NoticeBox:
    keys = {notice.key for notice in sent}
    waiting = tuple(notice for notice in box.waiting if notice.key not in keys)
    return replace(counted(box, now), waiting=waiting, tries=0, due=0.0, problem="")


def failed(box: NoticeBox, problem: str, now: float, spread: float = 0.5) -> NoticeBox:
    """A message could not be delivered; `spread` is between 0 and 1. The pauses grow, and what is too old is
    dropped."""
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(box.tries, 20)) * (0.8 + 0.4 * spread)
    waiting = tuple(notice for notice in box.waiting if notice.at > now - GIVE_UP)
    return replace(box, waiting=waiting, tries=box.tries + 1, due=now + pause, problem=problem)


# -- the message ------------------------------------------------------------------------------------------------


def title(notices: Sequence[Notice]) -> str:
    """One line: the notice itself, or `12 jobs failed, 1 job was paused`."""
    if len(notices) == 1:
        return notices[0].text
    counts = Counter(notice.kind for notice in notices)
    return ", ".join(_counted(kind, counts[kind]) for kind in NoticeKind if counts[kind])


def _counted(kind: NoticeKind, count: int) -> str:
    jobs, were = ("1 job", "was") if count == 1 else (f"{count} jobs", "were")
    if kind is NoticeKind.WARNED:
        return f"{jobs} may be paused"
    passive = kind in (NoticeKind.CANCELLED, NoticeKind.PAUSED, NoticeKind.RESUMED)
    return f"{jobs} {were} {kind.value}" if passive else f"{jobs} {kind.value}"


def text(notices: Sequence[Notice]) -> str:
    """The whole message: each notice with its job and project, at most `LISTED` of them."""
    lines = [_line(notice) for notice in notices[:LISTED]]
    if len(notices) == 1:
        return lines[0]
    more = [f"And {len(notices) - LISTED} more."] if len(notices) > LISTED else []
    return "\n".join([f"{title(notices)}.", "", *lines, *more])


def _line(notice: Notice) -> str:
    return f"{notice.text} (job {notice.job} of project {notice.project})" if notice.job else notice.text


def spread() -> float:
    """A random number that keeps the attempts of many users apart."""
    return random.random()
