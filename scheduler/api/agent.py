"""`/agent`: the requests of a worker's agent, with the token of its worker.

What must hold: such a token opens only these paths, and no other token opens them. The token determines the job,
attempt and rank of a request, never a path or a body. Every request may be repeated.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from scheduler.api.access import Caller, Scope
from scheduler.api.auth import token_of
from scheduler.api.base import ApiHandler, unauthenticated
from scheduler.api.endpoint import BYTES, MAX_JSON, endpoint
from scheduler.engines.agents.agents import Agents, tool
from scheduler.engines.agents.live import LiveWorker, State
from scheduler.engines.agents.uploads import Piece
from scheduler.engines.base import WorkerState
from scheduler.engines.files import Area, JobFile
from scheduler.engines.outputs import part
from scheduler.errors import Conflict, Invalid, NotFound, TooLarge
from scheduler.model import UserName
from scheduler.schema.agent import (
    AgentFileInfo,
    AgentFileList,
    AgentOrders,
    AgentReceived,
    AgentSpec,
    AgentState,
)

PIECE = 4 * 1024 * 1024
"""The most bytes that an agent gets in one answer."""

LONGEST_WAIT = 120.0

_AREAS = {area.value: area for area in (Area.OUTPUT, Area.CHECKPOINT)}


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class OrdersQuery(Query):
    after: int = Field(0, ge=0, description="the number of the newest order that the agent has")
    wait: float = Field(0, ge=0, description=f"seconds to wait for a newer one, {LONGEST_WAIT:g} at most")
    ready: bool = Field(
        False, description="the worker has everything that it needs, and is ready to start with the rest of its gang"
    )


class OffsetQuery(Query):
    offset: int = Field(0, ge=0, description="offset of the piece in bytes")


class PieceQuery(OffsetQuery):
    size: int = Field(0, ge=0, description="size of the whole file in bytes")
    modified: float = Field(0, ge=0, description="time of the file's last change, in seconds since the epoch")
    version: Annotated[str, StringConstraints(max_length=100)] = Field(
        "", description="identifies this version of the file's content"
    )


class AgentHandler(ApiHandler):
    """Identifies the worker by its token."""

    live: LiveWorker

    async def authenticate(self, scope: Scope) -> Caller:
        token = token_of(self.request)
        live = None if self.api.agents is None or token is None else self.api.agents.worker(token)
        if live is None:
            raise unauthenticated(self)
        self.live = live
        return Caller(UserName(f"worker {live.worker}"), frozenset({scope}))

    @property
    def agents(self) -> Agents:
        assert self.api.agents is not None
        return self.api.agents

    @property
    def piece(self) -> bytes:
        """The raw body."""
        if self._too_large:
            raise TooLarge(f"A piece may have {MAX_JSON:,} bytes at most.")
        return bytes(self._kept)

    def area(self, name: str) -> Area:
        if name not in _AREAS:
            raise NotFound(f"A worker has no folder {name!r}.")
        return _AREAS[name]

    def send(self, piece: bytes) -> None:
        self.set_header("Content-Type", BYTES)
        self.finish(piece)


class AgentSpecHandler(AgentHandler):
    @endpoint("What the worker must run", Scope.WORKER, answer=AgentSpec)
    async def get(self) -> None:
        known = AgentSpec.model_fields
        self.answer(AgentSpec(**{name: value for name, value in self.live.spec.items() if name in known}))


class AgentStateHandler(AgentHandler):
    @endpoint("Report the state of the worker", Scope.WORKER, body=AgentState, status=204, refuses=(Conflict,))
    async def post(self) -> None:
        said = self.body(AgentState)
        await self.agents.hear(self.live, State(**{**said.model_dump(), "state": WorkerState(said.state)}))
        self.set_status(204)
        self.finish()


class AgentOrdersHandler(AgentHandler):
    @endpoint(
        "Whether the worker may start, is asked to save its state, and must stop",
        Scope.WORKER,
        query=OrdersQuery,
        answer=AgentOrders,
    )
    async def get(self) -> None:
        query = self.query(OrdersQuery)
        wait = min(query.wait, LONGEST_WAIT)
        number, stop, begin = await self.agents.orders(self.live, query.after, wait, ready=query.ready)
        self.answer(AgentOrders(number=number, stop=stop, begin=begin, save=self.live.save))


class AgentBlobHandler(AgentHandler):
    @endpoint(
        "A piece of the bundle or of a part of a large file; empty at its end",
        Scope.WORKER,
        query=OffsetQuery,
        media=BYTES,
        refuses=(NotFound,),
    )
    async def get(self, digest: str) -> None:
        offset = self.query(OffsetQuery).offset
        self.agents.blob(self.live, digest)
        try:
            self.send(await asyncio.to_thread(_piece, self.api.blobs.path(digest), offset))
        except FileNotFoundError:
            raise NotFound(f"The blob {digest} is missing on the scheduler's disk.") from None


class AgentToolHandler(AgentHandler):
    @endpoint(
        "A piece of a file that is provided along with the command; empty at its end",
        Scope.WORKER,
        query=OffsetQuery,
        media=BYTES,
        refuses=(NotFound,),
    )
    async def get(self, path: str) -> None:
        offset = self.query(OffsetQuery).offset
        self.send(await asyncio.to_thread(_piece, tool(path), offset))


class AgentStreamHandler(AgentHandler):
    @endpoint(
        "Append a piece to the log, the reports or the displays; returns the size received so far",
        Scope.WORKER,
        query=OffsetQuery,
        takes=BYTES,
        answer=AgentReceived,
        refuses=(NotFound,),
    )
    async def put(self, path: str) -> None:
        query = self.query(OffsetQuery)
        async with self.live.turn:
            size = await self.agents.files.append(self.live.worker, path, query.offset, self.piece)
        self.answer(AgentReceived(size=size))


class AgentFilesHandler(AgentHandler):
    @endpoint(
        "The files of the job's output or checkpoint folder",
        Scope.WORKER,
        answer=AgentFileList,
        refuses=(NotFound,),
    )
    async def get(self, area: str) -> None:
        found = await self.agents.files.list(self.live.worker.job, self.area(area))
        self.answer(AgentFileList(files=[AgentFileInfo(path=f.path, size=f.size, modified=f.modified) for f in found]))


class AgentFileHandler(AgentHandler):
    @endpoint(
        "A piece of a file of the output or checkpoint folder; empty at its end",
        Scope.WORKER,
        query=OffsetQuery,
        media=BYTES,
        refuses=(NotFound,),
    )
    async def get(self, area: str, path: str) -> None:
        file = JobFile(self.live.worker.job, self.area(area), path)
        self.send(await self.agents.files.read(file, self.query(OffsetQuery).offset, PIECE))

    @endpoint(
        "Upload a piece of such a file, which appears with its last piece; returns the size received so far",
        Scope.WORKER,
        query=PieceQuery,
        takes=BYTES,
        answer=AgentReceived,
        refuses=(NotFound, Invalid),
    )
    async def put(self, area: str, path: str) -> None:
        query = self.query(PieceQuery)
        piece = Piece(query.offset, self.piece, query.size, query.modified, query.version)
        async with self.live.turn:
            size = await self.agents.files.put(self.live.worker, self.area(area), path, piece)
        self.answer(AgentReceived(size=size))

    @endpoint(
        "Delete a file of the output or checkpoint folder, if it exists",
        Scope.WORKER,
        status=204,
        refuses=(NotFound, Invalid),
    )
    async def delete(self, area: str, path: str) -> None:
        async with self.live.turn:
            await self.agents.files.remove(self.live.worker, self.area(area), path)
        self.set_status(204)
        self.finish()


def _piece(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        return part(file.fileno(), offset, PIECE)


AGENT_ROUTES: tuple[tuple[str, type[ApiHandler]], ...] = (
    ("/api/v1/agent/spec", AgentSpecHandler),
    ("/api/v1/agent/state", AgentStateHandler),
    ("/api/v1/agent/orders", AgentOrdersHandler),
    ("/api/v1/agent/blobs/{digest}", AgentBlobHandler),
    ("/api/v1/agent/tools/{path}", AgentToolHandler),
    ("/api/v1/agent/streams/{path}", AgentStreamHandler),
    ("/api/v1/agent/files/{area}", AgentFilesHandler),
    ("/api/v1/agent/files/{area}/{path}", AgentFileHandler),
)
"""The paths of agents, which only workers' tokens open."""
