"""Streams: events resume without gap or repetition and show only permitted data; logs can be followed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from scheduler.api import broadcast, logs
from scheduler.api.listener import Listener
from scheduler.model import JobState, Project, ProjectName


@asynccontextmanager
async def listening(service: Any, who: str = "owner", after: int | None = None, **query: str) -> AsyncIterator[Any]:
    """The open stream of a caller, as an iterator of `(event id, kind, data)`."""
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(after)} if after is not None else {})}
    async with service.http[who].stream("GET", "events", params=query, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["X-Accel-Buffering"] == "no"
        lines = answer.aiter_lines()
        assert (await anext(lines)).startswith("retry: ")
        assert (await anext(lines)).startswith("id: ")
        yield parsed(lines)


async def parsed(lines: AsyncIterator[str]) -> AsyncIterator[tuple[int, str, dict[str, Any]]]:
    fields: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield int(fields["id"]), fields["event"], json.loads(fields["data"])
            fields = {}


async def take(stream: Any, until: Any, seconds: float = 20) -> list[tuple[int, str, dict[str, Any]]]:
    """The events up to the first with `until(kind, data)`."""
    found = []
    async with asyncio.timeout(seconds):
        async for one in stream:
            found.append(one)
            if until(one[1], one[2]):
                return found
    raise AssertionError("the stream ended")


def ended(job_id: str) -> Any:
    return lambda kind, data: data["subject"] == job_id and data["data"].get("state") == "succeeded"


async def test_events_of_a_job_include_its_current_view(service: Any) -> None:
    async with listening(service) as stream:
        job = await service.submit(command=["true"], gpus=1)
        told = await take(stream, ended(job["id"]))
    kinds = [kind for _, kind, data in told if data["subject"] == job["id"]]
    assert kinds[0] == "job.submitted"
    assert set(kinds) <= {"job.submitted", "job.state", "job.reason"}
    assert told[-1][2]["job"]["state"] == "succeeded"
    assert told[-1][2]["job"]["mine"] is True


async def test_a_stream_that_resumes_misses_nothing_and_repeats_nothing(service: Any) -> None:
    jobs = [(await service.submit(command=["true"], gpus=0))["id"] for _ in range(3)]
    for job in jobs:
        await service.until(job, JobState.SUCCEEDED)

    def durable(told: list[tuple[int, str, Any]]) -> list[tuple[int, str]]:
        return [(number, data["subject"]) for number, kind, data in told if kind != "job.reason"]

    last = service.controller.book.last_event
    async with listening(service, after=0) as stream:
        whole = durable(await take(stream, lambda kind, data: data["id"] >= last))
    assert len({number for number, _ in whole}) == len(whole)
    middle = whole[len(whole) // 2][0]
    async with listening(service, after=middle) as stream:
        rest = durable(await take(stream, lambda kind, data: data["id"] >= last))
    assert rest == [one for one in whole if one[0] > middle]


async def test_a_list_and_the_events_after_it_leave_no_gap(service: Any) -> None:
    answer = await service.http["owner"].get("jobs")
    job = await service.submit(gpus=0)
    async with listening(service, after=int(answer.headers["Runai-Event"])) as stream:
        told = await take(stream, lambda kind, data: kind == "job.submitted")
    assert told[-1][2]["subject"] == job["id"]


async def test_listeners_get_only_events_that_they_may_see(service: Any) -> None:
    async with (
        listening(service, "stranger", after=0) as strangers,
        listening(service, "reader", after=0) as readers,
    ):
        theirs = await service.submit("owner", command=["true"], gpus=0)
        await service.http["owner"].post("sessions", json={"user": "ann", "gpus": 1})
        await service.until(theirs["id"], JobState.SUCCEEDED)
        own = await service.submit("stranger", command=["true"], gpus=0)
        told = await take(strangers, ended(own["id"]))
        assert theirs["id"] not in json.dumps(told)
        assert '"ann"' not in json.dumps(told)
        seen = await take(readers, ended(theirs["id"]))
        assert own["id"] not in json.dumps(seen)
        assert not [kind for _, kind, _ in seen if kind.startswith("session.")]


async def test_a_stream_can_be_limited_to_one_subject(service: Any) -> None:
    first = await service.submit(command=["true"], gpus=0)
    second = await service.submit(command=["true"], gpus=0)
    async with listening(service, after=0, subject=second["id"]) as stream:
        told = await take(stream, ended(second["id"]))
    assert {data["subject"] for _, _, data in told} == {second["id"]}
    assert first["id"] not in json.dumps(told)


async def test_a_silent_stream_sends_heartbeats(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "QUIET", 0.05)
    monkeypatch.setattr(broadcast, "CARE", 0.05)
    async with (
        asyncio.timeout(10),
        service.http["owner"].stream("GET", "events") as answer,
    ):
        async for line in answer.aiter_lines():
            if line.startswith(":"):
                return


async def test_a_stream_ends_when_its_caller_may_no_longer_read(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "CHECK_EVERY", 0.1)
    service = await start()
    async with asyncio.timeout(10), service.http["mate"].stream("GET", "events") as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        del service.tokens.callers["mate"]
        async for _ in lines:
            pass


async def test_a_listener_that_does_not_read_is_disconnected(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "PATIENCE", 0.2)
    monkeypatch.setattr(broadcast, "CARE", 0.05)
    service = await start(send_buffer=4096)
    # More events than all buffers in between can hold.
    pool = service.controller.book.pool
    await service.controller.apply(
        replace(pool, projects=(*pool.projects, *(Project(ProjectName(f"p{number}")) for number in range(1000))))
    )
    last = service.controller.book.last_event
    port = int(service.url.rsplit(":", 1)[1].rstrip("/"))
    let_go = asyncio.Event()
    close = Listener.close

    def closing(listener: Listener, *, whole: bool = False) -> None:
        close(listener, whole=whole)
        let_go.set()

    monkeypatch.setattr(Listener, "close", closing)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", port))
        slow.sendall(
            b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: token owner\r\nLast-Event-ID: 0\r\n\r\n"
        )
        async with asyncio.timeout(30):
            await let_go.wait()
        received = await asyncio.to_thread(drain, slow)
    assert b'"id":' in received
    assert f'"id":{last},'.encode() not in received
    resumed = int(re.findall(rb"^id: (\d+)$", received, re.MULTILINE)[-2])
    async with listening(service, after=resumed) as stream:
        told = await take(stream, lambda kind, data: data["id"] >= last)
    assert [number for number, _, _ in told] == list(range(resumed + 1, last + 1))


def drain(connection: socket.socket) -> bytes:
    """The rest of a connection's data."""
    connection.settimeout(20)
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            received += piece
    return received


# -- logs ---------------------------------------------------------------------------------------------------


async def followed(service: Any, job_id: str, **query: Any) -> bytes:
    params = {"follow": "true", **query}
    async with (
        asyncio.timeout(30),
        service.http["owner"].stream("GET", f"jobs/{job_id}/logs", params=params) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        return b"".join([piece async for piece in answer.aiter_raw()])


async def test_a_log_is_streamed_as_it_grows_until_the_job_has_ended(service: Any) -> None:
    script = 'echo one; while [ ! -e "$RUNAI_OUTPUT_DIR/go" ]; do sleep 0.05; done; echo two'
    job = await service.submit(command=["sh", "-c", script], gpus=0)
    params = {"follow": "true"}
    async with (
        asyncio.timeout(30),
        service.http["owner"].stream("GET", f"jobs/{job['id']}/logs", params=params) as answer,
    ):
        pieces = answer.aiter_raw()
        assert await anext(pieces) == b"one\n"
        (service.state_dir / "jobs" / job["id"] / "output" / "go").touch()
        assert [piece async for piece in pieces] == [b"two\n"]


async def test_a_log_followed_before_the_job_starts_is_complete(service: Any) -> None:
    train = (await service.http["owner"].get("pool")).json()["train"]["gpus"]
    first = await service.submit(gpus=train)
    await service.until(first["id"], JobState.RUNNING)
    second = await service.submit(gpus=train, command=["sh", "-c", "echo at last"])
    following = asyncio.create_task(followed(service, second["id"]))
    await service.until(second["id"], JobState.QUEUED)
    await service.http["owner"].post(f"jobs/{first['id']}/cancel")
    assert await following == b"at last\n"


async def test_a_log_continues_with_the_next_attempt_after_a_separator(service: Any) -> None:
    script = "echo attempt $RUNAI_ATTEMPT; if [ $RUNAI_ATTEMPT = 1 ]; then exec sleep 60; fi"
    job = await service.submit(command=["sh", "-c", script], gpus=0, grace=1)
    await service.until(job["id"], JobState.RUNNING)
    following = asyncio.create_task(followed(service, job["id"]))
    only_first = asyncio.create_task(followed(service, job["id"], attempt=1))
    await until_text(service, job["id"], b"attempt 1\n")
    await service.http["owner"].post(f"jobs/{job['id']}/pause")
    await service.until(job["id"], JobState.PAUSED)
    assert await only_first == b"attempt 1\n"
    await service.http["owner"].post(f"jobs/{job['id']}/resume")
    assert await following == b"attempt 1\n\n--- attempt 2 ---\nattempt 2\n"
    assert await followed(service, job["id"], attempt=1) == b"attempt 1\n"
    assert await followed(service, job["id"], attempt=2) == b"attempt 2\n"


async def until_text(service: Any, job_id: str, text: bytes) -> None:
    async with (
        asyncio.timeout(20),
        service.http["owner"].stream("GET", f"jobs/{job_id}/logs", params={"follow": "true"}) as answer,
    ):
        found = b""
        async for piece in answer.aiter_raw():
            found += piece
            if text in found:
                return


async def test_a_page_of_a_log_is_bounded_and_the_next_follows(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await service.submit(command=["sh", "-c", "seq 1 400000"], gpus=0)
    await service.until(job["id"], JobState.SUCCEEDED)
    whole, offset = b"", 0
    while True:
        answer = await service.http["owner"].get(f"jobs/{job['id']}/logs", params={"offset": offset})
        assert len(answer.content) <= logs.PAGE
        if not answer.content:
            break
        whole += answer.content
        offset = len(whole)
    assert whole == "".join(f"{number}\n" for number in range(1, 400001)).encode()
    assert await followed(service, job["id"]) == whole


async def test_a_followed_log_ends_when_its_reader_may_no_longer_read(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHECK_EVERY", 0.1)
    job = await service.submit(command=["sh", "-c", "echo hi; exec sleep 60"], gpus=0)
    await service.until(job["id"], JobState.RUNNING)
    async with (
        asyncio.timeout(30),
        service.http["owner"].stream("GET", f"jobs/{job['id']}/logs", params={"follow": "true"}) as answer,
    ):
        pieces = answer.aiter_raw()
        assert await anext(pieces) == b"hi\n"
        del service.tokens.callers["owner"]
        assert [piece async for piece in pieces] == []


@pytest.mark.parametrize(("query", "status"), [("rank=1", 422), ("attempt=9", 404), ("follow=true&attempt=9", 404)])
async def test_a_log_that_does_not_exist_is_refused(service: Any, query: str, status: int) -> None:
    job = await service.submit(gpus=0)
    assert (await service.http["owner"].get(f"jobs/{job['id']}/logs?{query}")).status_code == status


# -- outputs ------------------------------------------------------------------------------------------------


async def test_outputs_are_returned_and_links_out_of_the_folder_are_not(service: Any) -> None:
    script = (
        'cd "$RUNAI_OUTPUT_DIR"; mkdir a; printf data > "a/b c.bin"; '
        "ln -s /etc/passwd leak; ln -s /etc etc; mkfifo pipe"
    )
    job = await service.submit(command=["sh", "-c", script], gpus=0)
    await service.until(job["id"], JobState.SUCCEEDED)
    owner = service.http["owner"]
    files = (await owner.get(f"jobs/{job['id']}/outputs")).json()["files"]
    assert [(file["path"], file["size"]) for file in files] == [("a/b c.bin", 4)]
    answer = await owner.get(f"jobs/{job['id']}/outputs/a/b%20c.bin")
    assert answer.content == b"data"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    for path in (
        "leak",
        "etc/passwd",
        "pipe",
        "nothing",
        "a",
        "..%2f..%2f..%2ftoken",
        "%2fetc%2fpasswd",
        "a/%00",
    ):
        assert (await owner.get(f"jobs/{job['id']}/outputs/{path}")).status_code == 404, path
