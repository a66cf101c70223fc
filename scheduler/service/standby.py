"""The answers of a scheduler while another one leads: it is alive, it is not ready, and who leads."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from scheduler.api.base import problem_of
from scheduler.errors import Unavailable


class Alive(RequestHandler):
    def get(self) -> None:
        self.set_header("Content-Type", "text/plain")
        self.finish("ok\n")


class Elsewhere(RequestHandler):
    """The answer to every request: only the leader can answer."""

    def initialize(self, leader: Callable[[], str]) -> None:
        self._leader = leader

    def prepare(self) -> None:
        leader = self._leader()
        where = f"the leader is {leader}" if leader else "no leader is known"
        self.set_status(Unavailable.status)
        self.set_header("Retry-After", "1")
        self.set_header("Content-Type", "application/problem+json")
        self.finish(problem_of(Unavailable(f"This scheduler is a standby; {where}.")).model_dump_json())


@contextlib.asynccontextmanager
async def standing_by(
    sockets: Sequence[socket.socket], base_url: str, leader: Callable[[], str]
) -> AsyncIterator[None]:
    """Answer on these sockets, and leave them open at the end."""
    alive = re.escape(f"{base_url}healthz")
    routes: list[Any] = [(alive, Alive), (".*", Elsewhere, {"leader": leader})]
    server = HTTPServer(Application(routes, log_function=lambda handler: None))
    server.add_sockets([listening.dup() for listening in sockets])
    try:
        yield
    finally:
        server.stop()
        await server.close_all_connections()
