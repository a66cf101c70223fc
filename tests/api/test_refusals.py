"""A refusal does not affect other requests: its connection is usable for the next one, or is announced as closing."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub_spawner.ports import any_free
from hub_spawner.proxy import bundled_proxy
from scheduler.api.app import ROUTES
from scheduler.api.exchange import SHORT

BASE = "/services/runai/"
DIGEST = "0" * 64
PATHS = sorted(
    path.format(
        job_id="j-1",
        session_id="s-1",
        stream_id="e-1",
        schedule="c-1",
        name="vision",
        node="n1",
        gpu="0",
        area="output",
        path="x",
        digest=DIGEST,
    )
    for path, _ in ROUTES
)
PATHS += ["/nothing", "/api/v1/jobs/j-1/nothing"]


METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW")


# -- on one connection --------------------------------------------------------------------------------------


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


LITTLE, MUCH = b"x" * 70_000, b"x" * (SHORT + 1)
BODIES = {
    "none": ("", b""),
    "short": (f"Content-Length: {len(LITTLE)}\r\n", LITTLE),
    "long": (f"Content-Length: {len(MUCH)}\r\n", MUCH),
    "never sent whole": ("Content-Length: 99999999999999999\r\n", LITTLE),
    "chunked": ("Transfer-Encoding: chunked\r\n", chunked(LITTLE)),
    "long and chunked": ("Transfer-Encoding: chunked\r\n", chunked(MUCH)),
}
EXPECTED = "Expect: 100-continue\r\n"


async def answer(reader: asyncio.StreamReader, method: str) -> tuple[int, dict[str, str]]:
    """The status and headers of one response, with its body read."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    if method != "HEAD":
        await reader.readexactly(int(headers.get("content-length", 0)))
    return int(first.split()[1]), headers


async def ask(service: Any, method: str, path: str, headers: str, body: bytes, *, waits: bool) -> int:
    """Send a request, and then a valid one on the same connection, unless that is announced as closing.

    With `waits`, the body is sent only when the server asks for it.
    """
    host, port = service.url.removeprefix("http://").rstrip("/").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode() + (b"" if waits else body))
    status, told = await answer(reader, method)
    if status == 100:
        writer.write(body if waits else b"")
        status, told = await answer(reader, method)
    if told.get("connection") == "close":
        writer.write_eof()
        assert await reader.read() == b"", (method, path)
    else:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await answer(reader, "GET"))[0] == 200, (method, path)
    writer.close()
    return status


@pytest.mark.parametrize("how", [*BODIES, *(f"{how}, expected" for how in BODIES if how != "none")])
async def test_after_a_refusal_a_connection_is_usable_or_announced_to_close(service: Any, how: str) -> None:
    announced, body = BODIES[how.removesuffix(", expected")]
    seen: set[int] = set()
    for who in ("nobody", "powerless", "owner") if how == "none" else ("nobody", "owner"):
        headers = ("" if who == "nobody" else f"Authorization: token {who}\r\n") + announced
        for path in PATHS:
            for method in METHODS:
                if (path, method) == ("/api/v1/events", "GET"):
                    continue  # a stream, for permitted callers
                if how.endswith("expected"):
                    seen.add(await ask(service, method, path, headers + EXPECTED, body, waits=True))
                    seen.add(await ask(service, method, path, headers + EXPECTED, body, waits=False))
                else:
                    seen.add(await ask(service, method, path, headers, body, waits=False))
    assert seen >= {401, 404, 405}
    assert not any(status >= 500 for status in seen)


# -- through a hub's proxy ----------------------------------------------------------------------------------


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[tuple[str, Callable[[str], None]]]:
    """The proxy of a hub: its address, and a function that forwards paths below `BASE` to a scheduler."""
    command = bundled_proxy()
    if command is None:
        pytest.skip("There is no Node.js here, or no bundled proxy (`make` builds it).")
    port, api = any_free(), any_free()
    with (tmp_path / "proxy.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--port={port}", f"--api-port={api}", "--ip=127.0.0.1", "--api-ip=127.0.0.1"],
            env={**os.environ, "CONFIGPROXY_AUTH_TOKEN": "only-in-tests"},
            stdout=log,
            stderr=log,
        )
    http = httpx.Client(
        base_url=f"http://127.0.0.1:{api}/api/routes",
        headers={"Authorization": "token only-in-tests"},
        transport=httpx.HTTPTransport(retries=8),
    )

    def route(target: str) -> None:
        http.post(BASE.rstrip("/"), json={"target": target.removesuffix(BASE)}).raise_for_status()

    yield f"http://127.0.0.1:{port}{BASE}", route
    http.close()
    process.kill()
    process.wait()


REFUSALS = {
    "without a token": (401, "GET", "api/v1/me", None, None),
    "without a token, with a body": (401, "POST", "api/v1/jobs", None, LITTLE),
    "without a token, with a long body": (401, "PUT", f"api/v1/blobs/{DIGEST}", None, MUCH),
    "without the scope": (403, "POST", "api/v1/jobs", "reader", LITTLE),
    "nothing there": (404, "POST", "nothing", None, LITTLE),
    "not with this method": (405, "PATCH", "api/v1/jobs", None, LITTLE),
    "an unknown method": (405, "PROPFIND", "api/v1/jobs", None, b""),
    "too large": (413, "POST", "api/v1/jobs", "owner", MUCH),
    "of the wrong form": (422, "POST", "api/v1/jobs", "owner", LITTLE),
}


@pytest.mark.parametrize("kind", REFUSALS)
async def test_refusals_do_not_fail_the_requests_of_others(start: Any, proxy: Any, kind: str) -> None:
    """300 refusals and 300 valid requests in turn, from concurrent clients, over the proxy's kept connections."""
    status, method, path, who, body = REFUSALS[kind]
    service = await start(base_url=BASE)
    url, route = proxy
    await asyncio.to_thread(route, service.url)
    refused, valid = Counter[int](), Counter[int]()
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:

        async def turns() -> None:
            for _ in range(75):
                sent = await http.request(
                    method, path, content=body, headers={"Authorization": f"token {who}"} if who else None
                )
                refused[sent.status_code] += 1
                good = await http.get("api/v1/me", headers={"Authorization": "token owner"})
                valid[good.status_code] += 1

        await asyncio.gather(*(turns() for _ in range(4)))
    assert valid == {200: 300}
    assert refused == {status: 300}
