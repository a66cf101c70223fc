"""A faulty proxy to the API server: it delays and fails calls, loses responses to executed ones, and breaks watches or
refuses them as too old."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from tests.kubernetes.cluster import Cluster

TOO_OLD = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


@dataclass
class BadApi:
    """`lateness` is the longest delay of a call, in seconds; `fails` is the fraction of calls refused with 503 before
    execution, `loses` the fraction whose response is lost after it."""

    cluster: Cluster
    chance: random.Random
    lateness: float = 0.0
    fails: float = 0.0
    loses: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    """The number of faults by kind."""
    _watches: set[asyncio.Task[None]] = field(default_factory=set)
    _expires: bool = False

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[None]:
        trusted = ssl.create_default_context(cafile=str(self.cluster.ca))
        headers = {"Authorization": f"Bearer {self.cluster.token}"}
        connector = aiohttp.TCPConnector(ssl=trusted, limit=0)
        async with aiohttp.ClientSession(self.cluster.url, connector=connector, headers=headers) as self._session:
            app = web.Application(client_max_size=2**24)
            app.router.add_route("*", "/{path:.*}", self._answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            try:
                yield
            finally:
                self.drop_watches()
                await runner.cleanup()

    def drop_watches(self, *, too_old: bool = False) -> None:
        """Break all watches; with `too_old`, the next ones are refused as too old."""
        self._expires = too_old
        for watch in self._watches:
            watch.cancel()

    def be_good(self) -> None:
        self.lateness = self.fails = self.loses = 0.0
        self._expires = False

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._watch(request)
        body = await request.read()
        await asyncio.sleep(self.chance.uniform(0, self.lateness))
        if self.chance.random() < self.fails:
            self.seen["failures"] += 1
            return web.json_response({"kind": "Status", "code": 503, "message": "not now"}, status=503)
        headers = {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
        async with self._session.request(request.method, request.rel_url, data=body, headers=headers) as answer:
            said = await answer.read()
        if self.chance.random() < self.loses:
            self.seen["lost answers"] += 1
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=answer.status, body=said, content_type=answer.content_type)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        if self._expires:
            self._expires = False
            self.seen["watches that were too old"] += 1
            await answer.write(json.dumps({"type": "ERROR", "object": TOO_OLD}).encode() + b"\n")
            return answer
        passing = asyncio.create_task(self._pass(request, answer))
        self._watches.add(passing)
        passing.add_done_callback(self._watches.discard)
        with contextlib.suppress(asyncio.CancelledError, ConnectionError, aiohttp.ClientError):
            await passing
        if passing.cancelled():
            self.seen["dropped watches"] += 1
        return answer

    async def _pass(self, request: web.Request, answer: web.StreamResponse) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(request.rel_url, timeout=timeout) as events:
            async for piece in events.content.iter_any():
                await asyncio.sleep(self.chance.uniform(0, self.lateness))
                await answer.write(piece)
