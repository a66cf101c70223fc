"""The nodes that an administrator has drained or moved to another node pool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.errors import Invalid
from scheduler.model import Node, NodeName, NodePoolName, Pool


def as_declared(nodes: Iterable[Node], pool: Pool) -> tuple[Node, ...]:
    """`nodes` as an engine finds them, drained and moved as `pool` declares. The others are the same objects."""
    drained, moved = {name for name, _ in pool.drained}, dict(pool.moved)
    return tuple(
        replace(
            node,
            schedulable=node.schedulable and node.name not in drained,
            node_pool=moved.get(node.name, node.node_pool),
        )
        if node.name in drained or node.name in moved
        else node
        for node in nodes
    )


def with_drained(pool: Pool, node: NodeName, reason: str | None) -> Pool:
    """`pool` with a node drained for a reason, or taking work again (`None`)."""
    drained = {name: why for name, why in pool.drained if name != node}
    if reason is not None:
        drained[node] = reason
    return replace(pool, drained=tuple(sorted(drained.items())))


def with_moved(pool: Pool, node: Node, node_pool: str) -> Pool:
    """`pool` with a node, as the engine finds it, in a node pool. Raises `Invalid` where there is no such node pool."""
    names = [each.name for each in pool.node_pools]
    if node_pool not in names:
        raise Invalid(
            f"There is no node pool {node_pool!r}; available: {', '.join(names)}. New ones are added in the pool file.",
            field="node_pool",
        )
    moved = {name: to for name, to in pool.moved if name != node.name}
    if node_pool != node.node_pool:
        moved[node.name] = NodePoolName(node_pool)
    return replace(pool, moved=tuple(sorted(moved.items())))


def refuse_lost(pool: Pool) -> None:
    """Raise `Invalid` for a node that is moved to a node pool that there is not."""
    names = [node_pool.name for node_pool in pool.node_pools]
    for node, node_pool in pool.moved:
        if node_pool not in names:
            raise Invalid(
                f"moved.{node}: there is no node pool {node_pool!r}; available: {', '.join(names)}.",
                field=f"moved.{node}",
            )
