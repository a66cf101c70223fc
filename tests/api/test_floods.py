"""Many idle connections and incomplete requests do not keep out complete requests."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from contextlib import AsyncExitStack, suppress
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application

from scheduler.api.connections import Connections
from scheduler.api.server import make_server
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
async def test_incomplete_requests_are_closed_for_others(start: Any, how: str) -> None:
    service = await start(connections=20)
    async with AsyncExitStack() as stack:
        for _ in range(60):
            reader = await connect(service, stack, UNFINISHED[how])
            if how == "a request, and nothing more":
                await reader.readuntil(b"ok\n")
        assert (await service.http["owner"].get("me")).status_code == 200
        assert (await service.http["mate"].post("jobs", json={"command": ["true"]})).status_code == 201


async def test_one_user_holds_a_quarter_of_the_connections(start: Any, eventually: Any) -> None:
    """Streams and endless bodies alike; other users are served."""
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


async def test_a_client_that_never_finishes_a_request_is_closed_and_others_are_answered(start: Any) -> None:
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


async def test_a_kept_connection_may_rest_but_must_finish_a_request_that_it_begins(start: Any) -> None:
    """Also if its beginning followed the previous request."""
    service = await start(limits={"headers": 2.0})
    whole, begun = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost:"
    address = service.url.removeprefix("http://").rstrip("/").split(":")
    async with asyncio.timeout(30):
        resting, apart, together = [await asyncio.open_connection(*address) for _ in range(3)]
        for (reader, writer), sent in ((resting, whole), (apart, whole), (together, whole + begun)):
            writer.write(sent)
            await reader.readuntil(b"ok\n")
        apart[1].write(begun)
        for reader, _ in (apart, together):
            assert await reader.read() == b""
        resting[1].write(whole)
        await resting[0].readuntil(b"ok\n")
    for _, writer in (resting, apart, together):
        writer.close()


async def test_a_kept_connection_stays_open_while_the_wall_clock_jumps(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it jumps while a time limit is being set."""
    service = await start()
    days = itertools.count(time.time(), 86400)
    monkeypatch.setattr(time, "time", lambda: next(days))
    reader, writer = await asyncio.open_connection(*service.url.removeprefix("http://").rstrip("/").split(":"))
    async with asyncio.timeout(30):
        for _ in range(3):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"ok\n")
            await asyncio.sleep(0.05)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("turns", range(5))
async def test_a_connection_made_while_the_server_stops_is_closed(turns: int) -> None:
    server = make_server(Application([], api=SimpleNamespace(connections=Connections(IOStream.close))))
    (listening,) = bind_sockets(0, "127.0.0.1")
    server.add_sockets([listening])
    await asyncio.sleep(0)
    with socket.create_connection(listening.getsockname(), timeout=5) as client:
        for _ in range(turns):
            await asyncio.sleep(0)
        server.stop()
        await server.close_all_connections()
        with suppress(ConnectionResetError):
            assert await asyncio.to_thread(client.recv, 1) == b""


async def test_streams_are_not_closed_for_others(start: Any) -> None:
    service = await start(connections=8)
    async with AsyncExitStack() as stack:
        for who in ("owner", "mate", "stranger", "admin"):
            for _ in range(2):
                await stack.enter_async_context(service.http[who].stream("GET", "events"))
        with pytest.raises(httpx.TransportError):
            await service.http["reader"].get("me")
        await connect(service, stack, b"")
    assert (await service.http["reader"].get("me")).status_code == 200


def test_the_oldest_incomplete_request_is_closed_first() -> None:
    """Per address the oldest incomplete one; overall the oldest incomplete one, then the oldest idle one."""
    closed: list[str] = []
    connections = Connections[str](closed.append, 8)
    for name in ("a1", "a2", "b1"):
        assert connections.open(name, name[0])
    assert connections.open("a3", "a")
    assert closed == ["a1"]  # the third of its address, whose limit is two
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
