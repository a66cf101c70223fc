"""One request and its answer, on a connection that carries more requests: a hub's proxy keeps its connections, and
sends everybody's requests over them.

What must hold: after an answer the connection is ready for the next request, or the answer has said
`Connection: close`. Tornado guarantees neither for an answer that is given before the whole request was read, such as
an error: it closes the connection without notice, even where there was nothing more to read. Here such an answer waits
for the end of a short body. Before a long body, or one that waits for `100 Continue`, it is sent at once and announces
that the connection closes; the body is read and discarded for a while, as a client that is reset would lose the answer
(RFC 9112, 9.6).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from tornado.concurrent import Future
from tornado.http1connection import HTTP1Connection
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream

from scheduler.api.connections import Connections

SHORT = 1024 * 1024
"""The longest body, in bytes, for whose end an early answer waits."""

DISCARDED = 64 * 1024 * 1024
"""How many bytes of a longer body are read and discarded after the answer, so that the client can read it."""

DISCARDING = 30.0
"""The time limit for that, in seconds."""


class Stream(IOStream):
    """Tells `arrived` that the next request has begun to arrive, until its headers are there."""

    arrived: Callable[[], None] | None = None

    def read_from_fd(self, buf: bytearray | memoryview) -> int | None:
        read = super().read_from_fd(buf)
        if read and self.arrived is not None:
            self.arrived()
        return read

    def awaits(self, arrived: Callable[[], None] | None) -> None:
        self.arrived = arrived
        if arrived is not None and self._read_buffer_size:  # it was sent behind the last request
            arrived()


class Answer(HTTPConnection):
    """The connection as the application sees it. An early answer is held back until the request has been read."""

    def __init__(self, connection: HTTP1Connection) -> None:
        self._connection = connection
        self._held: list[Callable[[], Future[None]]] = []
        self._finished = False
        self._headers: HTTPHeaders
        self.early = False
        self.read = False

    # -- what the application calls -------------------------------------------------------------------------

    def write_headers(
        self,
        start_line: RequestStartLine | ResponseStartLine,
        headers: HTTPHeaders,
        chunk: bytes | None = None,
    ) -> Future[None]:
        self._headers = headers
        return self._write(partial(self._connection.write_headers, start_line, headers, chunk))

    def write(self, chunk: bytes) -> Future[None]:
        return self._write(partial(self._connection.write, chunk))

    def finish(self) -> None:
        if self.read:
            self._connection.finish()
        self._finished = True

    def _write(self, write: Callable[[], Future[None]]) -> Future[None]:
        if self.read:
            return write()
        self.early = True
        self._held.append(write)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def detach(self) -> IOStream:
        """Hand the connection to the application, which answers no more requests on it and closes it."""
        return self._connection.detach()

    @property
    def context(self) -> object:
        return self._connection.context

    @property
    def stream(self) -> Stream:
        return cast(Stream, self._connection.stream)

    def set_close_callback(self, callback: Callable[[], None] | None) -> None:
        self._connection.set_close_callback(callback)

    def set_max_body_size(self, size: int) -> None:
        self._connection.set_max_body_size(size)

    def set_body_timeout(self, seconds: float) -> None:
        self._connection.set_body_timeout(seconds)

    # -- what the exchange calls ----------------------------------------------------------------------------

    def release(self) -> None:
        """Send what was held back: the request has been read."""
        self.read = True
        self._send()
        if self._finished:
            self._connection.finish()

    def release_and_close(self) -> None:
        """Send what was held back before the request has been read, announcing that the connection closes."""
        self._headers["Connection"] = "close"
        self._connection.set_body_timeout(DISCARDING)
        self._flushed = self._send()

    def close(self) -> None:
        """Close the connection as soon as the answer is sent."""
        self._flushed.add_done_callback(lambda _: self._connection.close())

    def _send(self) -> Future[None]:
        held, self._held = self._held, []
        return [write() for write in held][-1]


class Exchange(HTTPMessageDelegate):
    """The request as the connection delivers it."""

    def __init__(self, application: HTTPMessageDelegate, answer: Answer, connections: Connections[IOStream]) -> None:
        self._application = application
        self._answer = answer
        self._connections = connections
        self._headers: HTTPHeaders
        self._received = 0
        self._closing = False
        self._late: asyncio.TimerHandle | None = None

    def awaited(self, seconds: float) -> None:
        """Give the headers so many seconds from the first byte on: until then the connection may rest."""
        self._answer.stream.awaits(partial(self._begins, seconds))

    def _begins(self, seconds: float) -> None:
        if self._late is None:
            stream = self._answer.stream
            self._connections.begins(stream)
            self._late = asyncio.get_running_loop().call_later(seconds, stream.close)

    async def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        self._headers = headers
        self._answer.stream.awaits(None)
        if self._late is not None:
            self._late.cancel()
        ready = self._application.headers_received(start_line, headers)
        if ready is not None:
            await ready
        if self._answer.early:
            self._answer.set_max_body_size(sys.maxsize)  # what is discarded is bounded here
            if _length(headers) > SHORT or "Expect" in headers:
                self._close()

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        if not self._answer.early:
            return self._application.data_received(chunk)
        self._received += len(chunk)
        if not self._closing and self._received > SHORT:
            self._close()
        if self._received > DISCARDED:
            self._answer.close()
        return None

    def finish(self) -> None:
        self._connections.complete(self._answer.stream)
        if self._closing:
            self._answer.close()
        elif self._answer.early:
            self._answer.release()
        else:
            self._answer.read = True
            self._application.finish()

    def on_connection_close(self) -> None:
        if not self._answer.early:
            self._application.on_connection_close()

    def _close(self) -> None:
        self._closing = True
        # Tornado would request the body after the answer, and tell an HTTP/1.0 client that the connection is kept.
        self._headers.pop("Expect", None)
        self._headers.pop("Connection", None)
        self._answer.release_and_close()


def _length(headers: HTTPHeaders) -> int:
    """The announced length of a body in bytes; 0 where it is missing or invalid."""
    length = headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else 0
