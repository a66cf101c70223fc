"""The requests for nodes and their GPUs, as those of `calls`."""

from __future__ import annotations

from urllib.parse import quote

from scheduler.client.calls import Call, _given, _json, _nothing, _view
from scheduler.schema import Applied, GpuHistory, NodeDrain, NodeGpus, NodeMove


def drain(node: str, reason: str = "") -> Call[None]:
    """Drain a node: it gets no new work, and running work continues to its end."""
    return Call("PUT", f"nodes/{quote(node)}/drain", _nothing, **_json(NodeDrain(reason=reason)))


def undrain(node: str) -> Call[None]:
    """Let a drained node accept new work again."""
    return Call("DELETE", f"nodes/{quote(node)}/drain", _nothing, repeatable=False)


def move_node(node: str, node_pool: str, preview: bool = False) -> Call[Applied]:
    """Move a node to another node pool; with `preview` only return what that would change."""
    params = {"preview": "true"} if preview else {}
    body = NodeMove(node_pool=node_pool)
    return Call("PUT", f"nodes/{quote(node)}/node-pool", _view(Applied), params=params, patient=True, **_json(body))


def node_gpus(node: str) -> Call[NodeGpus]:
    """What the GPUs of a node report, and the processes that use them."""
    return Call("GET", f"nodes/{quote(node)}/gpus", _view(NodeGpus))


def gpu_history(
    node: str, gpu: int, *, since: float | None = None, until: float | None = None, points: int | None = None
) -> Call[GpuHistory]:
    """The use of a GPU over time (seconds since 1970; default: the last hour), as about `points` spans."""
    params = _given(since=since, until=until, points=points)
    return Call("GET", f"nodes/{quote(node)}/gpus/{gpu}/history", _view(GpuHistory), params=params)
