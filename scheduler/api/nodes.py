"""Nodes: an administrator drains them and returns them to use."""

from __future__ import annotations

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.errors import NotFound
from scheduler.model import NodeName
from scheduler.pool.file import with_drained
from scheduler.schema import NodeDrain


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
