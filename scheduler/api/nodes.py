"""Nodes: an administrator drains them, returns them to use, and moves them to other node pools."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.api.preview import previewed
from scheduler.errors import Conflict, Invalid, NotFound
from scheduler.model import NodeName
from scheduler.pool.changes import warnings
from scheduler.pool.nodes import with_drained, with_moved
from scheduler.schema import Applied, NodeDrain, NodeMove


class DrainHandler(ApiHandler):
    @endpoint(
        "Drain a node: it gets no new work, and running work continues to its end",
        Scope.ADMIN,
        body=NodeDrain,
        status=204,
        refuses=(NotFound,),
    )
    async def put(self, node: str) -> None:
        if not any(one.name == node for one in self.api.book.nodes):
            raise NotFound(f"There is no node {node!r}.")
        await self._become(NodeName(node), self.body(NodeDrain).reason)

    @endpoint("Let a drained node accept new work again", Scope.ADMIN, status=204, refuses=(NotFound,))
    async def delete(self, node: str) -> None:
        if node not in dict(self.api.book.pool.drained):
            raise NotFound(f"The node {node!r} is not drained.")
        await self._become(NodeName(node), None)

    async def _become(self, node: NodeName, reason: str | None) -> None:
        async with self.api.changing:
            await self.api.controller.apply(with_drained(self.api.book.pool, node, reason), self.caller.name)
        self.set_status(204)
        self.finish()


class MoveQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    preview: bool = Field(False, description="only return what the move would change")


class NodePoolHandler(ApiHandler):
    @endpoint(
        "Move a node to another node pool, or preview that: running work continues to its end",
        Scope.ADMIN,
        body=NodeMove,
        query=MoveQuery,
        answer=Applied,
        refuses=(NotFound, Invalid, Conflict),
    )
    async def put(self, node: str) -> None:
        preview, wanted = self.query(MoveQuery).preview, self.body(NodeMove).node_pool
        async with self.api.changing:
            before, nodes = self.api.book.pool, self.api.book.nodes
            found = next((one for one in self.api.inventory.nodes(before) if one.name == node), None)
            if found is None:
                raise NotFound(f"There is no node {node!r}.")
            after = with_moved(before, found, wanted)
            answer = await previewed(self.api, after)
            if not preview:
                await self.api.controller.apply(after, self.caller.name)
        known = warnings(before, nodes, self.api.clock())
        told = [warning for warning in answer.warnings if warning not in known]
        self.answer(answer.model_copy(update={"preview": preview, "warnings": told}))
