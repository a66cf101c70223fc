"""Deletion is complete and permanent, and affects nothing else."""

from __future__ import annotations

from dataclasses import replace

from scheduler.model import Attempt, Job, JobId, JobState
from scheduler.store import JOB_DELETED, ChangeSet, EventRecord, Store
from tests.store.samples import PLACED, event, job


def over(number: int, ended: float) -> Job:
    return replace(job(number), state=JobState.SUCCEEDED, ended=ended, attempts=(Attempt(1, PLACED, 1.0, ended=ended),))


def told(name: str) -> EventRecord:
    return EventRecord(3000.0, JOB_DELETED, name, "ana", "vision")


async def test_a_deleted_job_leaves_one_event_and_the_ids_go_on(store: Store, url: str) -> None:
    kept, gone = over(1, 2000.0), over(2, 2000.0)
    await store.write(ChangeSet(submitted=(job(1), job(2)), events=(event("job0001"), event("job0002"))))
    await store.write(ChangeSet(jobs=(kept, gone), events=(event("job0002", "project.changed"), event("job0002"))))
    (last,) = await store.write(ChangeSet(deleted=(JobId("job0002"),), events=(told("job0002"),)))
    before = store.load().before_events
    assert last.id == before + 5
    store.close()
    again = Store(url)
    again.open()
    assert await again.job(JobId("job0002")) is None
    assert await again.jobs() == [kept]
    assert [(each.id - before, each.subject, each.kind) for each in await again.events(0)] == [
        (1, "job0001", "job.state"),
        (3, "job0002", "project.changed"),
        (5, "job0002", JOB_DELETED),
    ]
    assert again.load().last_event == last.id
    assert await again.deleted([JobId("job0001"), JobId("job0002"), JobId("job0003")]) == {"job0002"}
    await again.write(ChangeSet(submitted=(job(2),)))
    assert await again.job(JobId("job0002")) == job(2)
    again.close()


async def test_outdated_events_are_deleted_and_ids_continue(store: Store, url: str) -> None:
    await store.write(ChangeSet(events=tuple(event(f"job{n:04}") for n in range(5))))
    before = store.load().before_events
    await store.write(ChangeSet(outdated=before + 3))
    assert [each.id - before for each in await store.events(0)] == [4, 5]
    store.close()
    again = Store(url)
    again.open()
    (next_one,) = await again.write(ChangeSet(events=(event(),)))
    assert next_one.id == before + 6
    again.close()


async def test_jobs_that_ended_long_ago_are_found_page_by_page(store: Store) -> None:
    jobs = [over(n, 2000.0 + n) for n in range(5)]
    await store.write(ChangeSet(submitted=tuple(job(n) for n in range(6)), jobs=tuple(jobs)))
    first = await store.ended(2004.0, None, 3)
    assert first == jobs[:3]
    assert await store.ended(2004.0, (first[-1].submitted, first[-1].id), 3) == jobs[3:4]


async def test_every_program_is_found_page_by_page(store: Store) -> None:
    await store.write(ChangeSet(submitted=tuple(job(n) for n in range(5))))
    pages = [await store.programs(after, 2) for after in ("", "job0001", "job0003", "job0004")]
    assert [[name for name, _ in page] for page in pages] == [
        ["job0000", "job0001"],
        ["job0002", "job0003"],
        ["job0004"],
        [],
    ]
    assert pages[0][0][1] == job(0).program
