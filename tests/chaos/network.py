"""A bad network in front of a port: it delays, cuts and resets connections at random bytes, and for a while it forwards
nothing."""

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

from scheduler.worker import agent
from tests.engines.remote import ADDRESS

CHUNK = 2**16
HEADERS = 700
"""Bytes that a small request or answer has at the most."""

LONGEST_DELAY = 0.02
"""Seconds that a chunk takes at the most."""


@dataclass
class Network:
    """What happens to the connections to `port`. Of those that break, one direction does at a byte that chance names,
    often within the headers."""

    chance: random.Random
    port: int
    breaks: float = 0.4
    """The part of connections that break."""
    stalls: tuple[float, float] = (0.5, 1.5)
    """The bounds, in seconds, of how long nothing is forwarded, and of how long it is in between."""
    long_stalls: float = 0.0
    """The part of stalls that outlast the agents' patience: what they had sent arrives after what they sent again."""
    seen: Counter[str] = field(default_factory=Counter)
    """How often what happened."""
    _up: asyncio.Event = field(default_factory=asyncio.Event)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def between(self, port: int) -> AsyncIterator[None]:
        """Who connects to `port` reaches `self.port` through it."""
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
            await asyncio.sleep(agent.WAIT + 12 if long else self.chance.uniform(*self.stalls))
            self._up.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen["connections"] += 1
        task = asyncio.create_task(self._forward(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.close())  # also where it was cancelled before it began

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
            onward.close()  # first: this may be cancelled while it waits for the others
            request.cancel()
            answer.cancel()
            await asyncio.gather(request, answer, return_exceptions=True)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, end: float) -> bool:
        """Forward until the source ends, or up to a byte: whether that was reached."""
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
    """Close with RST: what was sent may be lost on its way."""
    held = writer.get_extra_info("socket")
    if held is not None:
        with contextlib.suppress(OSError):
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
