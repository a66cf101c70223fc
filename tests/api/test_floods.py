"""Many connections that ask nothing, or never come to an end of asking, take no place from those who do."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any

import httpx
import pytest

from scheduler.api.connections import Connections
from scheduler.errors import TooMany

UNFINISHED = {
    "nothing": b"",
    "half a header": b"GET /api/v1/me HTTP/1.1\r\nHost:",
    "half a body, of nobody": b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
    "half a long body, of nobody": b"PUT /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\nhalf",
    "a request, and nothing more": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
}


async def connect(service: Any, stack: AsyncExitStack, sent: bytes) -> asyncio.StreamReader:
    host, port = service.url.removeprefix("http://").rstrip("/").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    stack.callback(writer.close)
    writer.write(sent)
    return reader


@pytest.mark.parametrize("how", UNFINISHED)
async def test_unfinished_requests_make_room_for_others(start: Any, how: str) -> None:
    service = await start(connections=20)
    async with AsyncExitStack() as stack:
        for _ in range(60):
            reader = await connect(service, stack, UNFINISHED[how])
            if how == "a request, and nothing more":
                await reader.readuntil(b"ok\n")
        assert (await service.http["owner"].get("me")).status_code == 200
        assert (await service.http["mate"].post("jobs", json={"command": ["true"]})).status_code == 201


async def test_one_user_holds_a_quarter_of_the_connections(start: Any, eventually: Any) -> None:
    """Whether they stream or take for ever to send a body; the others are answered."""
    service = await start(connections=40)
    slow = b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: token owner\r\nContent-Length: 9\r\n\r\n"
    async with AsyncExitStack() as stack:
        owner = service.http["owner"]
        for _ in range(5):
            answer = await stack.enter_async_context(owner.stream("GET", "events"))
            assert answer.status_code == 200
        for _ in range(5):
            await connect(service, stack, slow)
        connections = service.app.settings["api"].connections
        await eventually(lambda: connections.requests_of("ann") == 10)
        refused = await owner.get("me")
        assert refused.status_code == 429
        assert refused.json()["detail"] == "You have 10 requests open, the maximum; close some of them."
        assert (await service.http["mate"].get("me")).status_code == 200
    await eventually(lambda: connections.requests_of("ann") == 0)
    assert (await owner.get("me")).status_code == 200


async def test_who_never_finishes_a_request_is_closed_and_others_are_answered(start: Any) -> None:
    service = await start(limits={"headers": 2.0, "body": 2.0})
    slow = b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: token owner\r\nContent-Length: 9\r\n\r\nhalf"
    async with AsyncExitStack() as stack:
        unfinished = [await connect(service, stack, sent) for sent in (*list(UNFINISHED.values())[:3], slow)]
        assert (await service.http["mate"].get("me")).status_code == 200
        async with asyncio.timeout(30):
            for reader in unfinished:
                with suppress(ConnectionResetError):
                    await reader.read()  # to its end
        assert (await service.http["mate"].get("me")).status_code == 200


async def test_streams_do_not_give_way(start: Any) -> None:
    service = await start(connections=8)
    async with AsyncExitStack() as stack:
        for who in ("owner", "mate", "stranger", "admin"):
            for _ in range(2):
                await stack.enter_async_context(service.http[who].stream("GET", "events"))
        with pytest.raises(httpx.TransportError):
            await service.http["reader"].get("me")
        await connect(service, stack, b"")
    assert (await service.http["reader"].get("me")).status_code == 200


def test_who_gives_way_first() -> None:
    """Of one address the oldest incomplete one; of all the oldest incomplete one, then the oldest between two
    requests."""
    closed: list[str] = []
    connections = Connections[str](closed.append, 8)
    for name in ("a1", "a2", "b1"):
        assert connections.open(name, name[0])
    assert connections.open("a3", "a")
    assert closed == ["a1"]  # the third of its address, which may have two
    connections.complete("a2")
    connections.answered("a2")
    for name in ("c1", "c2", "d1", "e1", "f1"):
        connections.open(name, name[0])
        connections.belongs(name, name)
    assert connections.open("g1", "g")
    assert closed == ["a1", "b1"]
    connections.complete("a3")
    connections.complete("g1")
    assert connections.open("h1", "h")
    assert closed == ["a1", "b1", "a2"]
    connections.complete("h1")
    assert not connections.open("i1", "i")
    for name in ("a3", "c1", "c2", "d1", "e1", "f1", "g1", "h1"):
        assert connections.none_since is None
        connections.closed(name)
    assert connections.none_since is not None


def test_a_users_requests_count_until_they_are_answered_or_gone() -> None:
    connections = Connections[int](lambda _: None, 8)
    for number in range(2):
        connections.open(number, "x")
        connections.belongs(number, "ann")
    connections.open(2, "x")
    with pytest.raises(TooMany):
        connections.belongs(2, "ann")
    connections.belongs(2, "ben")
    connections.answered(0)
    connections.begins(0)
    connections.belongs(0, "ann")
    connections.closed(1)
    connections.open(3, "x")
    connections.belongs(3, "ann")
