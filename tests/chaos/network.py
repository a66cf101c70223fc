"""A bad network in front of a port: it delays, cuts and resets connections at random bytes, and stalls at times."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from scheduler.worker.agent.requests import WAIT
from tests.engines.remote import ADDRESS

CHUNK = 2**16
HEADERS = 700
"""The largest size of a small request or response, in bytes."""

LONGEST_DELAY = 0.02
"""The longest delay of a chunk, in seconds."""


@dataclass
class Network:
    """The faults of connections to `port`. They break in one direction at a random byte, often in the headers."""

    chance: random.Random
    port: int
    breaks: float = 0.4
    """The fraction of connections that break."""
    stalls: tuple[float, float] = (0.5, 1.5)
    """The bounds, in seconds, of a stall and of the time between two stalls."""
    long_stalls: float = 0.0
    """The fraction of stalls longer than the agents' time-out: the first request arrives after its repetition."""
    seen: Counter[str] = field(default_factory=Counter)
    """The number of faults by kind."""
    _up: asyncio.Event = field(default_factory=asyncio.Event)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def between(self, port: int) -> AsyncIterator[None]:
        """Connections to `port` are forwarded to `self.port`."""
        self._up.set()
        server = await asyncio.start_server(self._accept, ADDRESS, port)
        stalling = asyncio.create_task(self._stall())
        try:
            yield
        finally:
            stalling.cancel()
            self._up.set()
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(stalling, *self._serving, return_exceptions=True)
            await server.wait_closed()

    async def _stall(self) -> None:
        while True:
            await asyncio.sleep(self.chance.uniform(*self.stalls))
            long = self.chance.random() < self.long_stalls
            self.seen["long stalls" if long else "stalls"] += 1
            self._up.clear()
            await asyncio.sleep(WAIT + 12 if long else self.chance.uniform(*self.stalls))
            self._up.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen["connections"] += 1
        task = asyncio.create_task(self._forward(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.close())  # also if it was cancelled before it began

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [math.inf, math.inf]
        reset = self.chance.random() < 0.5
        if self.chance.random() < self.breaks:
            ends[self.chance.randrange(2)] = self.chance.randrange(self.chance.choice((HEADERS, 2**21)))
        there, onward = await asyncio.open_connection(ADDRESS, self.port)
        request = asyncio.create_task(self._pass(reader, onward, ends[0]))
        answer = asyncio.create_task(self._pass(there, writer, ends[1]))
        try:
            done, _ = await asyncio.wait((request, answer), return_when=asyncio.FIRST_COMPLETED)
            if any(way.exception() is None and way.result() for way in done):
                self.seen["resets" if reset else "cuts"] += 1
                if reset:
                    _reset(writer)
                    _reset(onward)
        finally:
            onward.close()  # first: this coroutine may be cancelled while it waits for the others
            request.cancel()
            answer.cancel()
            await asyncio.gather(request, answer, return_exceptions=True)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, end: float) -> bool:
        """Forward until the source ends or the limit is reached; returns whether it was reached."""
        passed = 0
        while piece := await source.read(CHUNK):
            await asyncio.sleep(self.chance.uniform(0, LONGEST_DELAY))
            await self._up.wait()
            sink.write(piece[: int(min(len(piece), end - passed))])
            await sink.drain()
            passed += len(piece)
            self.seen["bytes"] += len(piece)
            if passed >= end:
                return True
        return False


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST: data in flight may be lost."""
    held = writer.get_extra_info("socket")
    if held is not None:
        with contextlib.suppress(OSError):
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
