"""Which events are told, to whom and when: the decisions behind notices by e-mail and webhook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller import noticing
from scheduler.controller.noticing import MOST_PER_HOUR, MOST_WAITING, notice_of
from scheduler.model import (
    Attempt,
    Ending,
    Job,
    JobId,
    JobKind,
    JobState,
    Notice,
    NoticeBox,
    NoticeChannel,
    NoticeChoice,
    NoticeKind,
    Program,
    ProjectName,
    Request,
    UserName,
)
from scheduler.store import EventRecord

HOOK = NoticeChoice(NoticeChannel.WEBHOOK, "https://hooks.example.org/secret")
JOB = Job(
    JobId("j1"),
    "train",
    Request(ProjectName("vision"), UserName("ann")),
    Program(JobKind.COMMAND, ("train",)),
    submitted=1000.0,
    ended=1900.0,
)
PREEMPTED = Attempt(1, (), created=1000.0, ending=Ending.PREEMPTED, reason="Project due reclaims GPUs for asr.")
PAUSED = Attempt(1, (), created=1000.0, ending=Ending.STOPPED, reason="Pausing by ben.")
OWN = Attempt(1, (), created=1000.0, ending=Ending.STOPPED, reason="Pausing.")
SECOND = Attempt(2, (), created=1100.0)


WARNING = "Will be paused at 09:00 for project class; resumes at about 12:00."


def event(was: str, state: str, reason: str = "", attempt: int = 1, **more: object) -> EventRecord:
    data = {"state": state, "was": was, "reason": reason, "attempt": attempt, **more}
    return EventRecord(1900.0, "job.state", "j1", "ann", "vision", data, id=7)


def told(event: EventRecord, *attempts: Attempt, choice: NoticeChoice = HOOK) -> str | None:
    notice = notice_of(event, replace(JOB, attempts=attempts), choice)
    return f"{notice.kind}: {notice.text}" if notice else None


@pytest.mark.parametrize(
    ("happened", "attempts", "expected"),
    [
        (
            event("running", "failed", "It ended with exit code 3."),
            (),
            "failed: train failed: It ended with exit code 3.",
        ),
        (event("running", "succeeded", "Succeeded."), (), "succeeded: train succeeded after 15 min."),
        (event("queued", "cancelled", "Cancelled."), (), None),
        (event("queued", "cancelled", "Cancelled by ben."), (), "cancelled: train was cancelled by ben."),
        (
            event("queued", "cancelled", "Job prep has failed, and this job requires it to succeed."),
            (),
            "cancelled: train was cancelled: Job prep has failed, and this job requires it to succeed.",
        ),
        (
            event("running", "stopping", "Project due reclaims GPUs for asr."),
            (PREEMPTED,),
            "paused: train is being paused: Project due reclaims GPUs for asr. It resumes when GPUs are free again.",
        ),
        (event("stopping", "stopping", "Cancelling."), (PREEMPTED,), None),
        (event("stopping", "queued", "Project due reclaims GPUs for asr."), (PREEMPTED,), None),
        (event("running", "stopping", "Pausing by ben."), (PAUSED,), "paused: train is paused by ben."),
        (event("running", "stopping", "Pausing."), (OWN,), None),
        (event("stopping", "paused", "Paused by ben; resume it to queue it again."), (PAUSED,), None),
        (
            event("queued", "paused", "Paused by ben; resume it to queue it again.", attempt=0),
            (),
            "paused: train is paused by ben; resume it to queue it again.",
        ),
        (event("starting", "running", "Runs on n1.", 2), (PREEMPTED, SECOND), "resumed: train is running again."),
        (event("starting", "running", "Runs on n1.", 2), (PAUSED, SECOND), "resumed: train is running again."),
        (event("starting", "running", "Runs on n1.", 2), (OWN, SECOND), None),
        (event("starting", "running", "Runs on n1."), (PREEMPTED,), None),
        (event("running", "running", "Runs on n1.", 2), (PREEMPTED, SECOND), None),
        (
            event("running", "running", f"Runs on n1. It uses 9 GiB of GPU memory. {WARNING}", warned=True),
            (),
            "warned: train will be paused at 09:00 for project class; resumes at about 12:00.",
        ),
        (event("running", "running", f"Runs on n1. {WARNING}"), (), None),
        (EventRecord(1.0, "job.submitted", "j1", "ann", "vision", {"state": "queued"}), (), None),
    ],
)
def test_what_is_told(happened: EventRecord, attempts: tuple[Attempt, ...], expected: str | None) -> None:
    assert told(happened, *attempts) == expected


def test_a_success_is_told_if_it_took_long_enough_and_is_no_trial() -> None:
    success = event("running", "succeeded")
    assert told(success, choice=replace(HOOK, shortest_success=900.0))
    assert not told(success, choice=replace(HOOK, shortest_success=901.0))
    trial = replace(JOB, program=replace(JOB.program, parameters={"lr": 1}))
    assert notice_of(success, trial, HOOK) is None
    assert notice_of(event("running", "failed"), trial, HOOK)


STATES = st.sampled_from([state.value for state in JobState])


@given(
    st.builds(event, STATES, STATES, st.sampled_from(["", "Cancelled by ben.", "Paused by ben.", "No."]), st.just(2)),
    st.sampled_from([(), (PREEMPTED,), (PREEMPTED, SECOND), (OWN, PAUSED)]),
    st.builds(
        NoticeChoice, st.sampled_from(NoticeChannel), st.just("x"), st.lists(st.sampled_from(NoticeKind)).map(tuple)
    ),
)
def test_only_what_was_chosen_is_told(event: EventRecord, attempts: tuple[Attempt, ...], choice: NoticeChoice) -> None:
    notice = notice_of(event, replace(JOB, attempts=attempts), choice)
    if notice is not None:
        assert choice.channel is not NoticeChannel.NONE
        assert notice.kind in choice.events
        assert notice.key == "j1:7"
        assert (event.data or {})["state"] != (event.data or {})["was"]


def a_notice(number: int, at: float) -> Notice:
    return Notice(f"j{number}:1", NoticeKind.FAILED, JobId(f"j{number}"), f"job-{number}", "vision", "It failed.", at)


STEPS = st.lists(
    st.tuples(st.sampled_from(["happens", "delivery", "failure"]), st.integers(1, 40), st.floats(0, 8000)), max_size=60
)


@given(STEPS)
def test_each_notice_is_delivered_or_given_up_within_the_limit_of_an_hour(
    steps: list[tuple[str, int, float]],
) -> None:
    box, now, made = NoticeBox(UserName("ann"), HOOK, 0), 0.0, 0
    sent: list[float] = []
    gone: list[str] = []
    for what, count, passes in steps:
        now += passes
        if what == "happens":
            for _ in range(count):
                made += 1
                box = noticing.added(box, a_notice(made, now))
            continue
        at = noticing.next_at(box)
        assert (at is None) == (not box.waiting)
        if at is None or at > now:
            continue
        batch, before = noticing.batch(box), box
        assert batch == box.waiting[: len(batch)] != ()
        if what == "delivery":
            box = noticing.delivered(box, batch, now)
            assert box.waiting == before.waiting[len(batch) :]
            sent.append(now)
            gone += [notice.key for notice in batch]
        else:
            box = noticing.failed(box, "It is down.", now)
            assert now < (noticing.next_at(box) or now + 1)
            dropped = before.waiting[: len(before.waiting) - len(box.waiting)]
            assert all(notice.at <= now - noticing.GIVE_UP for notice in dropped)
            gone += [notice.key for notice in dropped]
    for at in sent:
        assert sum(at - noticing.HOUR < other <= at for other in sent) <= MOST_PER_HOUR
    assert len(set(gone)) == len(gone)
    waiting = [notice.key for notice in box.waiting]
    if made <= MOST_WAITING:
        assert sorted(gone + waiting) == sorted(f"j{number}:1" for number in range(1, made + 1))
    else:
        assert len(waiting) <= MOST_WAITING


def test_many_notices_are_one_message() -> None:
    many = tuple(a_notice(number, 0.0) for number in range(12))
    box = NoticeBox(UserName("ann"), HOOK, 0, waiting=many)
    assert noticing.batch(box) == many
    assert noticing.title(many) == "12 jobs failed"
    paused = replace(many[0], kind=NoticeKind.PAUSED)
    assert noticing.title((*many[1:3], paused)) == "2 jobs failed, 1 job was paused"
    warned = replace(many[0], kind=NoticeKind.WARNED)
    assert noticing.title((warned, warned, paused)) == "2 jobs may be paused, 1 job was paused"
    text = noticing.text(tuple(a_notice(number, 0.0) for number in range(30)))
    assert text.endswith("And 10 more.")
    assert noticing.title(many[:1]) == "It failed."


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (lambda choice: replace(choice, address="https://other.example.org"), False),
        (lambda choice: NoticeChoice(), False),
        (lambda choice: replace(choice, events=(NoticeKind.FAILED,)), True),
    ],
)
def test_another_address_gets_nothing_of_the_former_one(
    change: Callable[[NoticeChoice], NoticeChoice], kept: bool
) -> None:
    box = NoticeBox(UserName("ann"), HOOK, 3, waiting=(a_notice(1, 0.0),), sent=(5.0,), problem="It is down.")
    after = noticing.chosen(box, change(HOOK), 9)
    assert (after.waiting == box.waiting) == kept
    assert after.since == (3 if kept else 9)
    assert after.sent == (5.0,)  # choosing again does not lift the limit


def test_an_address_does_not_show_in_logs() -> None:
    assert "secret" not in repr(NoticeBox(UserName("ann"), HOOK, 0))
