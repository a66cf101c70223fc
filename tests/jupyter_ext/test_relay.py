"""All tabs of a user's browser share one stream of the scheduler, transparently."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from jupyter_ext import relay as relays
from jupyter_ext.relay import Relay, Tab
from jupyter_ext.upstream import Upstream
from scheduler.errors import NotFound, Unavailable
from scheduler.model import JobState
from scheduler.schema import JobSubmit
from tests.jupyter_ext.pool import RunningPool, running_pool


class Watched(Upstream):
    """The connection to the scheduler, and its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.ended = asyncio.Event()

    @contextlib.asynccontextmanager
    async def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        streams: bool = False,
        content: bytes | None = None,
    ) -> AsyncIterator[httpx.Response]:
        self.sent.append(f"{method} {path}")
        try:
            async with super().send(method, path, headers, streams=streams, content=content) as reply:
                yield reply
        finally:
            if streams:
                self.ended.set()

    @property
    def streams(self) -> int:
        return sum(each.startswith("GET events?") for each in self.sent)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPool]:
    with running_pool(tmp_path_factory.mktemp("pool") / "state") as pool:
        yield pool


@pytest.fixture
async def upstream(pool: RunningPool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    monkeypatch.setenv("RUNAI_URL", pool.address.url)
    monkeypatch.setenv("RUNAI_TOKEN", pool.address.token)
    monkeypatch.setattr(relays, "TOGETHER", 0.0)
    upstream = Watched()
    yield upstream
    await upstream.close()


@pytest.fixture
async def relay(upstream: Watched) -> AsyncIterator[Relay]:
    relay = Relay(upstream)
    yield relay
    await relay.close()


async def submit(pool: RunningPool, **job: Any) -> str:
    return (await asyncio.to_thread(pool.client.submit, JobSubmit(command=["true"], **job))).id


async def next_of(tab: Tab, kind: str) -> dict[str, Any]:
    """The next message of a kind."""
    async with asyncio.timeout(30):
        while (message := await tab.queue.get()) is not None:
            fields = dict(line.split(": ", 1) for line in message.decode().rstrip().split("\n"))
            if fields["event"] == kind:
                found: dict[str, Any] = json.loads(fields["data"])
                return found
    raise AssertionError("the stream has ended")


async def end_of(tab: Tab) -> None:
    async with asyncio.timeout(30):
        while await tab.queue.get() is not None:
            pass


async def test_tabs_share_one_stream(relay: Relay, upstream: Watched, pool: RunningPool) -> None:
    tabs = await asyncio.gather(*(relay.join(None, None, ()) for _ in range(3)))
    for tab in tabs:
        assert (await next_of(tab, "stream.begin"))["subject"] == tab.id
    job = await submit(pool, gpus=0)
    assert [(await next_of(tab, "job.submitted"))["subject"] for tab in tabs] == [job] * 3
    assert upstream.streams == 1


async def test_a_later_tab_gets_the_current_figures(relay: Relay, pool: RunningPool) -> None:
    first = await relay.join(None, None, ())
    while not (pools := (await next_of(first, "view.figures"))["data"].get("pool")):
        pass
    second = await relay.join(None, None, ())
    figures = (await next_of(second, "view.figures"))["data"]
    assert figures["pool"] == pools
    assert figures["me"]["admin"] is True
    assert [project["name"] for project in figures["projects"]] == ["default"]


async def test_a_tab_that_reconnects_gets_missed_events_once(relay: Relay, pool: RunningPool) -> None:
    watching = await relay.join(None, None, ())
    await submit(pool, gpus=0)
    seen = (await next_of(watching, "job.submitted"))["id"]
    missed = await submit(pool, gpus=0)
    await asyncio.to_thread(pool.client.wait, missed, 30)
    while (event := await next_of(watching, "job.state"))["subject"] != missed:
        pass
    back = await relay.join(seen, relay.store, ())
    assert (await next_of(back, "stream.begin"))["data"]["resumed"] is True
    assert (await next_of(back, "job.submitted"))["subject"] == missed
    assert (await next_of(back, "job.state"))["id"] > seen
    for after, store in ((seen, "another"), (event["id"] + 1000, relay.store), (None, relay.store)):
        tab = await relay.join(after, store, ())
        assert (await next_of(tab, "stream.begin"))["data"]["resumed"] is False


async def test_a_tab_that_does_not_read_is_disconnected_without_delaying_others(
    relay: Relay, pool: RunningPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "WAITING", 4)
    slow = await relay.join(None, None, ())
    monkeypatch.setattr(relays, "WAITING", 200)
    quick = await relay.join(None, None, ())
    jobs = [await submit(pool, gpus=0) for _ in range(5)]
    assert [(await next_of(quick, "job.submitted"))["subject"] for _ in jobs] == jobs
    await end_of(slow)


async def test_the_scheduler_gets_the_union_of_what_tabs_show(
    relay: Relay, upstream: Watched, pool: RunningPool
) -> None:
    gpus = pool.client.pool().train.gpus
    first = await asyncio.to_thread(pool.client.submit, JobSubmit(command=["sleep", "600"], gpus=gpus))
    waiting = [await submit(pool, gpus=gpus) for _ in range(2)]
    tabs = [await relay.join(None, None, ()), await relay.join(None, None, waiting[:1])]
    relay.show(tabs[0].id, waiting[1:])
    try:
        for tab in tabs:
            told: set[str] = set()
            while not told.issuperset(waiting):
                rows = (await next_of(tab, "view.figures"))["data"].get("jobs") or ()
                told.update(row["id"] for row in rows)
    finally:
        for job in (*waiting, first.id):
            await asyncio.to_thread(pool.client.cancel, job)
    assert upstream.streams == 1
    with pytest.raises(NotFound, match="no such stream"):
        relay.show("tab-of-another-page", ())


async def test_the_stream_is_closed_after_the_last_tab_and_reopened(
    relay: Relay, upstream: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "LINGER", 0.0)
    tabs = [await relay.join(None, None, ()) for _ in range(2)]
    relay.leave(tabs[0])
    assert not upstream.ended.is_set()
    relay.leave(tabs[1])
    async with asyncio.timeout(30):
        await upstream.ended.wait()
    again = await relay.join(None, None, ())
    assert (await next_of(again, "stream.begin"))["kind"] == "stream.begin"
    assert upstream.streams == 2


async def test_a_restart_of_the_scheduler_ends_streams_and_tabs_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_pool(tmp_path / "state") as pool:
        for name, value in pool.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("RUNAI_URL", raising=False)
        upstream = Watched()
        relay = Relay(upstream)
        tab = await relay.join(None, None, ())
        job = await submit(pool, gpus=0)
        seen = (await next_of(tab, "job.submitted"))["id"]
        pool.kill()
        await end_of(tab)
        pool.start()
        back = await relay.join(seen, relay.store, ())
        assert (await next_of(back, "stream.begin"))["data"]["resumed"] is True
        done = await next_of(back, "job.state")
        while (done["subject"], done["data"]["state"]) != (job, JobState.SUCCEEDED):
            done = await next_of(back, "job.state")
        await relay.close()
        await upstream.close()


async def test_where_no_scheduler_answers_a_tab_is_refused_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNAI_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("RUNAI_TOKEN", "x")
    upstream = Upstream()
    relay = Relay(upstream)
    with pytest.raises(Unavailable, match="does not answer"):
        await relay.join(None, None, ())
    await relay.close()
    await upstream.close()
