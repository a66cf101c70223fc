"""Writes are read back completely, in order and durably."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.errors import Conflict, Invalid, Unavailable
from scheduler.model import (
    Attempt,
    Job,
    JobId,
    JobKey,
    JobState,
    Notice,
    NoticeBox,
    NoticeChannel,
    NoticeChoice,
    NoticeKind,
    ProjectName,
    ProjectUsage,
    SessionId,
    SessionState,
    UserName,
)
from scheduler.store import NEWEST, AuditFilter, AuditRecord, ChangeSet, JobFilter, JobOrder, Store
from tests.store.samples import FULL_JOB, PLACED, POOL, SCHEDULE, SESSION, event, job


def reopened(store: Store, url: str) -> Store:
    store.close()
    again = Store(url)
    again.open()
    return again


async def test_stored_values_are_read_back_unchanged(store: Store, url: str) -> None:
    first = replace(FULL_JOB, attempts=FULL_JOB.attempts[:1])
    before, used = (
        ProjectUsage(ProjectName("vision"), average=1.5, held=2000, at=7.0),
        ProjectUsage(ProjectName("vision"), average=1 / 3, at=8.5),
    )
    await store.write(ChangeSet(submitted=(replace(FULL_JOB, attempts=()),), jobs=(first,), pool=POOL, usage=(before,)))
    change = ChangeSet(jobs=(FULL_JOB,), sessions=(SESSION,), usage=(used,), events=(event("full"),))
    (told,) = await store.write(change)
    again = reopened(store, url)
    loaded = again.load()
    assert loaded.jobs == (FULL_JOB,)
    assert loaded.sessions == (SESSION,)
    assert loaded.pool == POOL
    assert loaded.usage == (used,)
    assert (loaded.before_events, loaded.last_event) == (told.id - 1, told.id)
    assert await again.job(JobId("full")) == FULL_JOB
    assert await again.session(SessionId("s1")) == SESSION
    assert await again.events(0) == [told]
    again.close()


async def test_a_schedule_is_kept_changed_and_removed(store: Store, url: str) -> None:
    await store.write(ChangeSet(schedules=(SCHEDULE,), submitted=(replace(FULL_JOB, attempts=()),)))
    again = reopened(store, url)
    assert again.load().schedules == (SCHEDULE,)
    assert [found.id for found in await again.jobs(JobFilter(schedule=SCHEDULE.id))] == [FULL_JOB.id]
    changed = replace(SCHEDULE, due=None)
    await again.write(ChangeSet(schedules=(changed,)))
    assert again.load().schedules == (changed,)
    await again.write(ChangeSet(removed=(SCHEDULE.id,)))
    assert again.load().schedules == ()
    again.close()


async def test_notices_are_kept_with_the_event_up_to_which_they_were_made(store: Store, url: str) -> None:
    notice = Notice("j1:7", NoticeKind.FAILED, JobId("j1"), "train", "vision", "train failed: É.", 5.0)
    choice = NoticeChoice(NoticeChannel.SLACK, "https://hooks.example.org/x", (NoticeKind.FAILED,), 60.0)
    box = NoticeBox(UserName("ann"), choice, 3, (notice,), (1.0, 2.0), 4, 6.0, "It is down.")
    assert (store.load().notice_boxes, store.load().noticed) == ((), None)
    await store.write(ChangeSet(notice_boxes=(replace(box, tries=1),), noticed=7))
    await store.write(ChangeSet(notice_boxes=(box,), noticed=8))
    again = reopened(store, url)
    assert (again.load().notice_boxes, again.load().noticed) == ((box,), 8)
    again.close()


async def test_a_new_state_has_no_pool_and_no_jobs(store: Store) -> None:
    loaded = store.load()
    assert (loaded.pool, loaded.jobs, loaded.sessions) == (None, (), ())
    assert loaded.last_event == loaded.before_events
    assert await store.job(JobId("nobody")) is None
    assert await store.session(SessionId("nobody")) is None


async def test_ended_jobs_are_kept_but_not_loaded(store: Store) -> None:
    over = replace(job(1), state=JobState.SUCCEEDED, ended=2000.0)
    ended = replace(SESSION, state=SessionState.ENDED, ended=2000.0)
    await store.write(ChangeSet(submitted=(job(1),), jobs=(over,), sessions=(SESSION,)))
    await store.write(ChangeSet(sessions=(ended,)))
    loaded = store.load()
    assert (loaded.jobs, loaded.sessions) == ((), ())
    assert await store.job(over.id) == over
    assert await store.session(ended.id) == ended


async def test_changes_given_together_are_written_in_their_order(store: Store) -> None:
    """A job is submitted, started, ended and restarted before the first write completes."""
    one = Attempt(1, PLACED, 1.0)
    two = Attempt(2, PLACED, 3.0)
    started = replace(job(1), state=JobState.STARTING).with_attempt(one)
    ended = replace(started, state=JobState.QUEUED).with_attempt(replace(one, ended=2.0, exit_codes=(1, 0)))
    again = replace(ended, state=JobState.STARTING).with_attempt(two)
    changes = [ChangeSet(submitted=(job(1),)), *(ChangeSet(jobs=(step,)) for step in (started, ended, again))]
    await asyncio.gather(*(store.write(change) for change in changes))
    assert await store.job(again.id) == again


async def test_events_are_numbered_without_gaps_in_the_order_of_their_changes(store: Store, url: str) -> None:
    async def write(n: int) -> list[int]:
        events = tuple(event(f"job{n:04}-{part}") for part in range(3))
        return [record.id for record in await store.write(ChangeSet(submitted=(job(n),), events=events))]

    numbers = await asyncio.gather(*(write(n) for n in range(50)))
    before = store.load().before_events
    assert [number - before for given in numbers for number in given] == list(range(1, 151))
    again = reopened(store, url)
    await again.write(ChangeSet(events=(event("later"),)))
    kept = await again.events(before + 100, limit=1000)
    assert [record.id - before for record in kept] == list(range(101, 152))
    assert kept[-1].subject == "later"
    assert [record.id - before for record in await again.events(0, limit=10)] == list(range(1, 11))
    again.close()


async def test_a_later_store_counts_its_events_from_where_no_earlier_one_has_come(tmp_path: Path) -> None:
    """Ids are exact in JavaScript, and show when a store was replaced."""
    earlier, later = (Store(f"sqlite:///{tmp_path}/{name}.sqlite") for name in ("earlier", "later"))
    earlier.open()
    told = await earlier.write(ChangeSet(events=(event(),) * 100))
    later.open()
    loaded = later.load()
    assert told[-1].id < loaded.before_events < 2**53
    (first,) = await later.write(ChangeSet(events=(event(),)))
    assert first.id == loaded.before_events + 1
    for store in (earlier, later):
        store.close()


async def test_the_audit_outlives_the_process_and_is_read_newest_first(store: Store, url: str) -> None:
    before, after = {"limit": None, "members": ["ana"]}, {"limit": 2.5, "members": []}
    await store.write(ChangeSet(audit=(AuditRecord(1.0, None, "add", "project", "vision", after=after),)))
    await store.write(
        ChangeSet(
            audit=(
                AuditRecord(2.0, "root", "change", "project", "vision", before, after),
                AuditRecord(2.0, "root", "remove", "project", "nlp", before),
            )
        )
    )
    again = reopened(store, url)
    kept = await again.audit(AuditFilter(), limit=10)
    assert [(record.id, record.user, record.name) for record in kept] == [
        (3, "root", "nlp"),
        (2, "root", "vision"),
        (1, None, "vision"),
    ]
    assert (kept[1].before, kept[1].after) == (before, after)
    assert await again.audit(AuditFilter(user="root", kind="project", name="vision"), limit=10) == [kept[1]]
    assert await again.audit(AuditFilter(before=3), limit=1) == [kept[1]]
    again.close()


async def test_closing_writes_pending_changes(store: Store, url: str) -> None:
    writes = [store.write(ChangeSet(submitted=(job(n),))) for n in range(200)]
    again = reopened(store, url)
    assert len(again.load().jobs) == 200
    await asyncio.gather(*writes)
    again.close()


async def test_an_idempotency_key_belongs_to_one_user_and_job(store: Store) -> None:
    ana = replace(job(1), idempotency_key="k")
    bo = replace(job(2, user="bo"), idempotency_key="k")
    await store.write(ChangeSet(submitted=(ana, bo)))
    assert await store.job_with_key("ana", "k") == ana
    assert await store.job_with_key("bo", "k") == bo
    assert await store.job_with_key("ana", "other") is None
    with pytest.raises(Unavailable, match="could not be written"):
        await store.write(ChangeSet(submitted=(replace(job(3), idempotency_key="k"),)))


# -- failing writes ---------------------------------------------------------------------------------------------


async def test_a_failed_change_refuses_later_ones_and_leaves_nothing(store: Store) -> None:
    await store.write(ChangeSet(submitted=(job(1),), events=(event(),)))
    twice = store.write(ChangeSet(submitted=(job(2), job(1)), events=(event(),)))
    behind = store.write(ChangeSet(submitted=(job(3),), events=(event(),)))
    for written in (twice, behind):
        with pytest.raises(Unavailable, match="nothing was changed"):
            await written
    with pytest.raises(Unavailable):
        await store.write(ChangeSet(submitted=(job(4),)))
    store.mend()
    (record,) = await store.write(ChangeSet(submitted=(job(5),), events=(event(),)))
    assert record.id == store.load().before_events + 2
    assert [found.id for found in await store.jobs()] == ["job0005", "job0001"]
    assert not store.lost


async def test_postgresql_that_drops_the_connection_is_found_again(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    store.open()
    await store.write(ChangeSet(submitted=(job(1),), events=(event(),)))
    _kick_out_everybody(postgresql_url)
    with pytest.raises(Unavailable):
        await store.write(ChangeSet(submitted=(job(2),), events=(event(),)))
    store.mend()
    (record,) = await store.write(ChangeSet(submitted=(job(3),), events=(event(),)))
    assert record.id == store.load().before_events + 2
    assert {found.id for found in await store.jobs()} == {"job0001", "job0003"}
    store.close()


async def test_a_state_that_another_scheduler_has_written_meanwhile_is_lost(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    store.open()
    await store.write(ChangeSet(events=(event(),)))
    _kick_out_everybody(postgresql_url)
    other = Store(postgresql_url)
    other.open()
    await other.write(ChangeSet(events=(event("theirs"),)))
    other.close()
    for _ in range(2):
        with pytest.raises(Unavailable):
            await store.write(ChangeSet(submitted=(job(2),)))
        store.mend()
    with pytest.raises(Unavailable, match="restart the scheduler"):
        await store.write(ChangeSet(submitted=(job(2),)))
    assert store.lost
    assert await store.jobs() == []
    store.close()


def _kick_out_everybody(url: str) -> None:
    import sqlalchemy

    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    engine.dispose()


# -- listing ----------------------------------------------------------------------------------------------------


async def test_pages_are_newest_first_and_miss_nothing(store: Store) -> None:
    """Also for jobs of the same instant, ordered by id."""
    jobs = [job(n, at=1000.0 + n // 4) for n in range(50)]
    await store.write(ChangeSet(submitted=tuple(jobs)))
    seen: list[str] = []
    order = NEWEST
    while page := await store.jobs(order=order, limit=7):
        seen += [found.id for found in page]
        order = JobOrder(after=(page[-1].submitted, page[-1].id))
    assert seen == [j.id for j in sorted(jobs, key=lambda j: (j.submitted, j.id), reverse=True)]


async def test_listing_by_state_project_and_user(store: Store) -> None:
    await store.write(
        ChangeSet(submitted=(job(1), job(2, user="bo"), job(3, project="speech"), replace(job(4, user="bo"))))
    )
    await store.write(ChangeSet(jobs=(replace(job(4), state=JobState.FAILED, ended=5.0),)))

    everything = await store.jobs()

    async def found(**conditions: object) -> str:
        wanted = JobFilter(**conditions)  # type: ignore[arg-type]
        listed = await store.jobs(wanted)
        assert listed == [each for each in everything if wanted.matches(each)]
        return "".join(each.id[-1] for each in listed)

    assert await found() == "4321"
    assert await found(user="bo") == "42"
    assert await found(project="speech") == "3"
    assert await found(projects=("speech", "vision"), user="ana") == "31"
    assert await found(projects=()) == ""
    assert await found(states=(JobState.FAILED,)) == "4"
    assert await found(states=()) == ""
    assert await found(words=("SPEECH",)) == "3"
    assert await found(words=("fail", "bo")) == "4"
    assert await found(words=("%",)) == await found(words=("bo", "speech")) == ""
    assert [each.id[-1] for each in await store.jobs(limit=2)] == ["4", "3"]


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("by", JobKey)
async def test_every_order_is_the_same_in_the_store_and_in_memory(store: Store, by: JobKey, descending: bool) -> None:
    """Also for equal keys, other letters, jobs that never started, and jobs that start while the pages are read."""

    def standing(n: int, *starts: float | None, ended: float | None = None) -> Job:
        waits = job(n, user="aBé_"[n % 4], project=f"p{n % 3}", at=1000.0 + n // 2)
        attempts = [Attempt(number, (), 1000.0, started) for number, started in enumerate(starts, 1)]
        request = replace(waits.request, priority=n % 5, workers=1 + n % 4)
        return replace(waits, request=request, attempts=tuple(attempts), ended=ended)

    jobs = [
        *(standing(n) for n in range(8)),
        *(standing(n, 2000.0 + n % 3, None) for n in range(8, 16)),
        *(standing(n, None, 2500.0) for n in range(16, 18)),
        *(standing(n, ended=2000.0) for n in range(18, 21)),
        *(standing(n, 3001.0, ended=4000.0) for n in range(21, 24)),
    ]
    await store.write(ChangeSet(submitted=tuple(jobs)))
    for n in range(3):
        changed = [replace(each, attempts=each.attempts[: n + 1]) for each in jobs]
        await store.write(ChangeSet(jobs=tuple(changed)))
    order = JobOrder(by, descending, now=3000.0)
    expected = order.page(jobs, limit=100)
    assert [order.key(each) for each in expected] == sorted(map(order.key, jobs), reverse=descending)
    seen: list[str] = []
    while page := await store.jobs(order=order, limit=5):
        assert page == order.page(jobs, limit=5)
        seen += [found.id for found in page]
        order = replace(order, after=(order.key(page[-1]), page[-1].id))
    assert seen == [each.id for each in expected]


async def test_ids_are_ordered_alike_on_every_database(store: Store) -> None:
    ids = ["a-b", "aB", "ab", "a_b", "B", "Z", "é"]
    await store.write(ChangeSet(submitted=tuple(replace(job(1, at=1.0), id=JobId(one)) for one in ids)))
    assert [found.id for found in await store.jobs()] == sorted(ids, reverse=True)


# -- addresses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nonsense", "not a database address"),
        ("mysql://host/runai", "SQLite or PostgreSQL, not mysql"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
    ],
)
def test_an_invalid_store_address_is_refused(address: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        Store(address)


def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(Unavailable, match=r"/nowhere/at/all/runai\.sqlite cannot be opened"):
        Store("sqlite:////nowhere/at/all/runai.sqlite").open()


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    pytest.importorskip("psycopg", reason="needs psycopg, PostgreSQL's driver")
    with pytest.raises(Unavailable) as refused:
        Store("postgresql://ana:hunter2@127.0.0.1:1/runai").open()
    assert "127.0.0.1" in refused.value.sentence
    assert "hunter2" not in refused.value.sentence


def test_two_stores_never_share_a_state(store: Store, url: str) -> None:
    with pytest.raises(Conflict, match="Another scheduler"):
        Store(url).open()
    store.close()
    second = Store(url)
    second.open()
    second.close()
