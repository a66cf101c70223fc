"""The HTTP server: it takes connections, bounds them in number and time, and carries an exchange for each request.

What must hold: a connection that asks nothing ends by itself; without descriptors or memory the server waits, says so
once in a while, and goes on when there are some again.
"""

from __future__ import annotations

import asyncio
import copy
import errno
import logging
import os
import socket
from collections.abc import Iterable
from typing import Any, cast

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate
from tornado.iostream import IOStream
from tornado.web import Application

from scheduler.api.connections import Connections
from scheduler.api.endpoint import MAX_JSON
from scheduler.api.exchange import Answer, Exchange

log = logging.getLogger("runai.api")

HEADERS = 30.0
"""How many seconds the headers of a connection's first request may take."""

BETWEEN = 3600.0
"""And those of each further one, with the pause before it: a proxy keeps its connections."""

BODY = 30.0
"""How many seconds a body may take that no handler has allowed more."""

PAUSE = 0.5
"""Seconds until connections are taken again after the system had none to give."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Server(HTTPServer):
    """Made by `make_server`."""

    connections: Connections[IOStream]

    def initialize(self, application: Application, **options: Any) -> None:  # type: ignore[override]
        super().initialize(application, **options)
        self.connections = application.settings["api"].connections
        self._params_between = copy.copy(self.conn_params)
        self._params_between.header_timeout = BETWEEN
        self._accepting: list[asyncio.Task[None]] = []

    # -- connections ----------------------------------------------------------------------------------------

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        self._accepting += [asyncio.create_task(self._accept(listening)) for listening in sockets]

    def stop(self) -> None:
        for accepting in self._accepting:
            accepting.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        """Take connections for ever. Tornado's own loop asks again at once, and for ever, where there are no
        descriptors."""
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    connection, address = await loop.sock_accept(listening)
                    self.handle_stream(IOStream(connection), address)
                except (OSError, MemoryError) as error:
                    if (number := errno.ENOMEM if isinstance(error, MemoryError) else error.errno) in _EXHAUSTED:
                        log.warning("No connection can be taken (%s); trying again soon.", os.strerror(number))
                        if not self.connections.make_room():
                            await asyncio.sleep(PAUSE)
                await asyncio.sleep(0)  # those who are connected come in between

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        if self.connections.open(stream, address[0] if address else ""):
            super().handle_stream(stream, address)
        else:
            stream.close()

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        kept = cast(HTTP1ServerConnection, server_conn)
        if kept.params is self._params_between:
            self.connections.answered(kept.stream)
        kept.params = self._params_between  # from the next request on
        answer = Answer(cast(HTTP1Connection, request_conn))
        return Exchange(super().start_request(server_conn, answer), answer, self.connections)

    def on_close(self, server_conn: object) -> None:
        super().on_close(server_conn)
        stream = cast(HTTP1ServerConnection, server_conn).stream
        if stream.closed():  # else it was handed to a handler, which says when it closes
            self.connections.closed(stream)


def make_server(app: Application, *, headers: float = HEADERS, body: float = BODY) -> Server:
    """The server for `make_app`'s application, with other limits of time where they are given. The API's handlers bound
    the bodies that they take; these are the pages'."""
    return Server(
        app,
        max_body_size=MAX_JSON,
        max_header_size=64 * 1024,
        idle_connection_timeout=headers,
        body_timeout=body,
    )
