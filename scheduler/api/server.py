"""The HTTP server: it accepts connections, limits their number and time, and handles an exchange for each request.

What must hold: a connection without a request, or whose headers do not end, is closed after a time; without descriptors
or memory the server waits, logs that from time to time, and continues when there are some again.
"""

from __future__ import annotations

import asyncio
import copy
import errno
import logging
import os
import socket
import time
from collections.abc import Iterable
from typing import Any, cast

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream
from tornado.web import Application

from scheduler.api.connections import Connections
from scheduler.api.endpoint import MAX_JSON
from scheduler.api.exchange import Answer, Exchange, Stream

log = logging.getLogger("runai.api")

HEADERS = 30.0
"""The most seconds for the headers of a request: of a connection's first one since it was opened, of each further one
since its first byte."""

BETWEEN = 300.0
"""The most seconds between two requests: longer than proxies keep a connection (Go: 90 s), so that they close it."""

BODY = 30.0
"""The most seconds for a body, unless a handler allows more."""

PAUSE = 0.5
"""Seconds until connections are accepted again after the system had no descriptors."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Server(HTTPServer):
    """Made by `make_server`."""

    connections: Connections[IOStream]

    def initialize(self, application: Application, **options: Any) -> None:  # type: ignore[override]
        super().initialize(application, **options)
        self.connections = application.settings["api"].connections
        self._params_between = copy.copy(self.conn_params)
        self._params_between.header_timeout = BETWEEN
        self._headers: float = options["idle_connection_timeout"]
        self._accepting: list[asyncio.Task[None]] = []

    # -- connections ----------------------------------------------------------------------------------------

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        self._accepting += [asyncio.create_task(self._accept(listening)) for listening in sockets]

    def stop(self) -> None:
        for accepting in self._accepting:
            accepting.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        """Accept connections. Tornado's own loop would retry at once, without end, where there are no descriptors."""
        with listening:
            while True:
                try:
                    connection, address = listening.accept()  # `loop.sock_accept` loses one if it is cancelled
                    self.handle_stream(Stream(connection), address)
                except BlockingIOError:
                    await _readable(listening)
                except (OSError, MemoryError) as error:
                    if (number := errno.ENOMEM if isinstance(error, MemoryError) else error.errno) in _EXHAUSTED:
                        log.warning("No connection can be taken (%s); trying again soon.", os.strerror(number))
                        if not self.connections.make_room():
                            await asyncio.sleep(PAUSE)
                await asyncio.sleep(0)  # let open connections run

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        if self.connections.open(stream, address[0] if address else ""):
            super().handle_stream(stream, address)
        else:
            stream.close()

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        kept = cast(HTTP1ServerConnection, server_conn)
        answer = Answer(cast(HTTP1Connection, request_conn))
        exchange = Exchange(super().start_request(server_conn, answer), answer, self.connections)
        if kept.params is self._params_between:
            self.connections.answered(kept.stream)
            exchange.awaited(self._headers)
        kept.params = self._params_between  # from the next request on
        return exchange

    def on_close(self, server_conn: object) -> None:
        super().on_close(server_conn)
        stream = cast(HTTP1ServerConnection, server_conn).stream
        if stream.closed():  # otherwise a handler owns it and closes it
            self.connections.closed(stream)


async def _readable(listening: socket.socket) -> None:
    """Wait until there is a connection to accept."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listening, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listening)


def make_server(app: Application, *, headers: float = HEADERS, body: float = BODY) -> Server:
    """The server for `make_app`'s application, with time limits in seconds. The API's handlers limit their bodies
    themselves; `body` is the limit of the pages."""
    # Tornado sets time limits as times of this clock. The wall clock may jump meanwhile, and cut a connection.
    IOLoop.current().time = time.monotonic  # type: ignore[method-assign]
    return Server(
        app,
        max_body_size=MAX_JSON,
        max_header_size=64 * 1024,
        idle_connection_timeout=headers,
        body_timeout=body,
    )
