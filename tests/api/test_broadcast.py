"""One broadcaster serves all listeners: one message for all with the same view, bounded for any queue, and never more
than they may see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api import broadcast, gpufigures, messages, recent
from scheduler.api.access import Access, Caller, Scope
from scheduler.api.recent import Recent
from scheduler.engines.backend import Backend
from scheduler.model import GpuKey, JobId, JobState, Node, NodeName, Pool, Project, ProjectName, UserName
from scheduler.schema import Event
from scheduler.store import EventRecord
from scheduler.telemetry import GpuUsage
from tests.api.conftest import Start
from tests.engines.scripted import Machines, ScriptedEngine, ScriptedFiles, ScriptedLeadership, World


@dataclass
class View:
    """The stream of a caller with a view of the pool."""

    store: str
    lines: AsyncIterator[str]
    bytes: int = 0

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            async for line in self.lines:
                self.bytes += len(line) + 1
                if line.startswith("data: "):
                    found: dict[str, Any] = json.loads(line.removeprefix("data: "))
                    return found
        raise AssertionError("the stream has ended")

    async def until(self, kind: str, subject: str | None = None) -> dict[str, Any]:
        """The next event of a kind."""
        while (event := await self.next())["kind"] != kind or subject not in (None, event["subject"]):
            pass
        return event

    async def places(self, wanted: dict[str, int]) -> None:
        """Read until these jobs have these positions in the queue."""
        told: dict[str, int] = {}
        while told != wanted:
            rows = (await self.until("view.figures"))["data"].get("jobs") or []
            told |= {row["id"]: row["position"] for row in rows}


@asynccontextmanager
async def viewing(service: Any, who: str = "owner", after: int | None = None, **query: Any) -> AsyncIterator[View]:
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    params = {"view": "true", **query}
    async with service.http[who].stream("GET", "events", params=params, headers=headers) as answer:
        assert answer.status_code == 200
        yield View(answer.headers["Runai-Store"], answer.aiter_lines())


async def a_line_of(service: Any, length: int) -> list[str]:
    """Jobs that wait for a full pool, in their order."""
    train = (await service.http["owner"].get("pool")).json()["train"]["gpus"]
    first = await service.submit(gpus=train, priority=90)
    await service.until(first["id"], JobState.RUNNING)
    return [(await service.submit(gpus=train))["id"] for _ in range(length)]


async def test_an_event_is_serialised_once_for_all_who_may_see_the_same(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Event] = []
    write = messages.written

    def counting(event: Event, *, id: int | None = None) -> bytes:
        made.append(event)
        return write(event, id=id)

    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(viewing(service, who))
            for who in ("owner", "owner", "mate", "reader", "admin")
        ]
        for stream in streams:
            await stream.until("stream.begin")
        monkeypatch.setattr(messages, "written", counting)
        job = (await service.submit(gpus=0))["id"]
        told = [await stream.until("job.submitted", job) for stream in streams]
    assert [event["job"]["mine"] for event in told] == [True, True, False, False, False]
    seen = [event.job.mine for event in made if event.job and event.kind == "job.submitted"]
    assert sorted(seen) == [False, True]


async def test_a_view_gets_the_positions_of_the_jobs_that_it_shows_and_of_no_others(service: Any) -> None:
    jobs = await a_line_of(service, 4)
    async with viewing(service, "mate", shows=jobs[1:3]) as stream:
        begin = await stream.until("stream.begin")
        assert begin["data"]["resumed"] is False
        await stream.places({jobs[1]: 2, jobs[2]: 3})
        answer = await service.http["mate"].post(f"events/{begin['subject']}", json={"jobs": jobs[3:]})
        assert answer.status_code == 204
        await stream.places({jobs[3]: 4})
        await service.http["owner"].post(f"jobs/{jobs[0]}/cancel")
        await stream.places({jobs[3]: 3})


async def test_a_caller_who_may_not_see_a_job_does_not_get_its_position(service: Any) -> None:
    jobs = await a_line_of(service, 2)
    theirs = (await service.submit("stranger", gpus=2))["id"]
    async with viewing(service, "stranger", shows=[*jobs, theirs]) as stream:
        while not (rows := (await stream.until("view.figures"))["data"].get("jobs")):
            pass
    assert {row["id"] for row in rows} == {theirs}


async def test_a_view_learns_what_the_callers_own_running_jobs_have_written(service: Any) -> None:
    report = 'read line < gate; echo "$line"; echo "{}" >> "$RUNAI_OUTPUT_DIR/metrics.jsonl"; exec sleep 60'
    job = (await service.submit(command=["sh", "-c", f"mkfifo gate; {report}"]))["id"]
    await service.until(job, JobState.RUNNING)
    async with viewing(service, shows=job) as mine, viewing(service, "mate", shows=job) as mates:
        everything = {"printed": [job], "reported": [job]}
        assert (await mine.until("view.written"))["data"] == everything  # it may have been written before
        gate = await asyncio.to_thread(next, service.state_dir.rglob("gate"))
        await asyncio.to_thread(gate.write_text, "hello\n")
        told: dict[str, list[str]] = {"printed": [], "reported": []}
        while told != everything:
            told |= {what: ids for what, ids in (await mine.until("view.written"))["data"].items() if ids}
        log = await service.http["owner"].get(f"jobs/{job}/logs")
        assert log.text == "hello\n"
        await service.http["owner"].post(f"jobs/{job}/cancel")
        while (event := await mates.next())["subject"] != job or event["data"].get("state") != "cancelled":
            assert event["kind"] != "view.written"


async def test_a_view_gets_the_use_of_the_gpus_that_it_shows(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpufigures, "EVERY", 0.01)
    world, machines = World(), Machines(Node(NodeName("n1"), gpus=4))
    engine, files = ScriptedEngine(world), ScriptedFiles(world)
    service = await start(backend=Backend(engine, files, machines, ScriptedLeadership(world)))
    shown, other = [(await service.submit(gpus=1))["id"] for _ in range(2)]
    await service.until(other, JobState.RUNNING)
    ((_, gpu),) = [(worker.node, *worker.gpus) for worker in service.controller.book.jobs[JobId(shown)].placement]
    async with (
        viewing(service, shows=shown) as mine,
        viewing(service, "stranger", shows=shown) as theirs,
        viewing(service, "admin", all_projects="true") as all_of_them,
    ):
        for used in (0.25, 0.5):
            machines.use = {GpuKey((NodeName("n1"), each)): GpuUsage(used, 1024, 2048) for each in range(4)}
            figure = {"node": "n1", "index": gpu, "utilisation": used, "used_memory_gib": 1.0}
            while (found := (await mine.until("view.figures"))["data"].get("gpus")) is None:
                pass
            assert found == [figure]
            while (found := (await all_of_them.until("view.figures"))["data"].get("gpus")) is None:
                pass
            assert found == [{**figure, "index": each} for each in range(4)]
        await service.http["admin"].post(f"jobs/{shown}/cancel")
        await service.submit("stranger", gpus=0)
        while (event := await theirs.next())["kind"] != "job.submitted":
            assert not event["data"].get("gpus")


async def test_a_view_gets_the_numbers_of_jobs_also_of_those_that_it_does_not_show(service: Any) -> None:
    async with viewing(service, "mate") as mates, viewing(service, "stranger") as theirs:
        await a_line_of(service, 2)

        async def counted(view: View) -> tuple[dict[str, int], dict[str, int]]:
            while not (me := (await view.until("view.figures"))["data"].get("me")):
                pass
            return me["jobs"], me["team_jobs"]

        none = {"running": 0, "stopping": 0, "waiting": 0, "paused": 0}
        while (found := await counted(mates)) != (none, {**none, "running": 1, "waiting": 2}):
            assert found[0] == none
        await service.submit("stranger", gpus=0)
        while (found := await counted(theirs))[0] == none:
            assert found[1] == none
        assert found[0] == found[1]


async def test_a_submission_in_front_of_many_is_one_event_and_the_rows_that_are_shown(service: Any) -> None:
    jobs = await a_line_of(service, 120)
    shown = jobs[:50]
    async with viewing(service, "mate", shows=shown) as stream:
        await stream.places({job: place for place, job in enumerate(shown, 1)})
        before, last = stream.bytes, service.controller.book.last_event
        train = (await service.http["owner"].get("pool")).json()["train"]["gpus"]
        first = await service.submit(gpus=train, priority=70)
        await stream.places({job: place for place, job in enumerate(shown, 2)})
    assert stream.bytes - before <= 10_000, stream.bytes - before
    told = await service.store.events(last)
    assert {event.subject for event in told} == {first["id"]}


async def test_a_listener_that_missed_too_much_reloads_and_others_miss_nothing(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "ANEW", 3)
    before = service.controller.book.last_event
    jobs = await a_line_of(service, 5)
    last = service.controller.book.last_event
    async with viewing(service, after=last - 2) as stream:
        assert (await stream.until("stream.begin"))["data"]["resumed"] is True
        assert [(await stream.until("job.submitted"))["subject"] for _ in range(2)] == jobs[-2:]
    async with viewing(service, after=before) as stream:
        begin = await stream.until("stream.begin")
        assert (begin["data"]["resumed"], begin["id"]) == (False, last)
        sent = (await service.submit(gpus=0))["id"]
        assert (await stream.until("job.submitted"))["subject"] == sent


async def test_an_id_of_another_store_or_from_the_future_begins_with_the_first_event(service: Any) -> None:
    """A view, which would keep deleted jobs, is reloaded; the id may be from a replaced store."""
    jobs = await a_line_of(service, 1)
    last = service.controller.book.last_event
    replaced = service.controller.book.before_events - 1
    for after, query in ((last, {"store": "another"}), (last + 1000, {}), (replaced, {}), (300, {})):
        async with viewing(service, after=after, **query) as view:
            begin = await view.until("stream.begin")
            assert (begin["data"]["resumed"], begin["id"]) == (False, last)
        headers = {"Last-Event-ID": str(after)}
        async with service.http["owner"].stream("GET", "events", headers=headers, params=query) as answer:
            stream = View(answer.headers["Runai-Store"], answer.aiter_lines())
            ids = [(await stream.next())["id"]]
            while ids[-1] < last:
                ids.append((await stream.next())["id"])
        assert ids == [event.id for event in await service.store.events(0) if event.id <= last]
    async with viewing(service, after=last, store=stream.store) as view:
        assert (await view.until("stream.begin"))["data"]["resumed"] is True
    assert jobs


async def test_a_listener_behind_the_events_in_memory_reads_pages_from_the_store(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "KEPT", 2)
    monkeypatch.setattr(broadcast, "KEPT", 2)
    monkeypatch.setattr(broadcast, "PAGE", 2)
    monkeypatch.setattr(broadcast, "SPAN", 3)
    monkeypatch.setattr(Recent.__init__, "__defaults__", (2,))
    service = await start()
    sent = [(await service.submit("owner" if n % 3 else "stranger", gpus=0))["id"] for n in range(12)]
    last = service.controller.book.last_event
    async with service.http["mate"].stream("GET", "events", headers={"Last-Event-ID": "0"}) as answer:
        stream = View("", answer.aiter_lines())
        told = [await stream.next()]
        while told[-1]["id"] < last:
            more = await stream.next()
            assert more["id"] > told[-1]["id"]
            told.append(more)
            if more["subject"] == sent[-1]:
                break
    submitted = [event["subject"] for event in told if event["kind"] == "job.submitted"]
    assert submitted == [job for n, job in enumerate(sent) if n % 3]


async def test_nothing_more_is_read_for_a_listener_that_left_while_catching_up(
    start: Any, monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    monkeypatch.setattr(recent, "KEPT", 2)
    monkeypatch.setattr(broadcast, "KEPT", 2)
    monkeypatch.setattr(broadcast, "SPAN", 1)
    monkeypatch.setattr(Recent.__init__, "__defaults__", (2,))
    service = await start()
    for _ in range(12):
        await service.submit(gpus=0)
    told = service.app.settings["api"].broadcast
    read, asked, gone, reads = service.controller.past_events, asyncio.Event(), asyncio.Event(), 0

    async def slowly(*page: Any, **what: Any) -> Any:
        nonlocal reads
        reads += 1
        asked.set()
        await gone.wait()
        return await read(*page, **what)

    monkeypatch.setattr(service.controller, "past_events", slowly)
    async with service.http["owner"].stream("GET", "events", headers={"Last-Event-ID": "0"}):
        await asked.wait()
    await eventually(lambda: not len(told))
    gone.set()
    await eventually(lambda: not any("catch_up" in str(task.get_coro()) for task in asyncio.all_tasks()))
    assert reads == 1


async def test_a_removed_member_gets_no_more_events(service: Any) -> None:
    async with viewing(service, "mate") as stream:
        await stream.until("stream.begin")
        body: dict[str, Any] = {"name": "vision", "guaranteed": 2, "members": ["ann", "rex"]}
        assert (await service.http["admin"].put("projects/vision", json=body)).is_success
        await service.submit(gpus=0)
        body["guaranteed"] = 1
        assert (await service.http["admin"].put("projects/vision", json=body)).is_success
        told: list[str] = []
        while told.count("pool.changed") < 2:
            told.append((await stream.next())["kind"])
    assert "job.submitted" not in told


# -- events in memory ---------------------------------------------------------------------------------------

POOL = Pool(
    projects=(
        Project(ProjectName("p"), members=frozenset({UserName("ann")})),
        Project(ProjectName("q"), members=frozenset({UserName("ann"), UserName("zoe")})),
    )
)
records = st.builds(
    EventRecord,
    at=st.just(0.0),
    kind=st.sampled_from(["job.state", "job.deleted", "session.state", "pool.changed"]),
    subject=st.sampled_from(["j-1", "j-2", "j-3"]),
    user=st.sampled_from(["ann", "zoe", "bob"]),
    project=st.sampled_from(["p", "q"]),
)


@given(st.lists(records, max_size=40), st.integers(0, 45), st.sampled_from(["ann", "zoe", "bob", "root"]))
def test_what_a_caller_missed_is_what_they_may_see_of_all_or_unknown(
    happened: list[EventRecord], after: int, name: str
) -> None:
    numbered = [
        replace(e, id=id, project=e.project if e.kind.startswith("job.") else None) for id, e in enumerate(happened, 1)
    ]
    kept = Recent(0, kept=10)
    for event in numbered:
        kept.add([event])
    access = Access(Caller.of(UserName(name), frozenset({Scope.ADMIN if name == "root" else Scope.READ})), POOL)
    found = kept.after(after, access)
    if found is None:
        assert after < len(numbered) - 10
        return
    deleted = {e.subject for e in numbered[kept.since :] if e.kind == "job.deleted"}
    assert found == [
        e for e in numbered[after:] if access.sees_event(e) and (e.kind == "job.deleted" or e.subject not in deleted)
    ]
