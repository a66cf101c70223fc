"""Each key of `settings` in the pool file makes a difference through the running service."""

from __future__ import annotations

import pytest

from scheduler.model import Node
from tests.live.conftest import Open

TRAIN = [{"name": "train", "environment": "train"}]
ONE_GPU = Node("n1", gpus=1)


@pytest.mark.parametrize(("time_aware", "next_one"), [(0, "a"), (1, "b")])
async def test_time_aware(open_pool: Open, time_aware: float, next_one: str) -> None:
    """Two projects ask for the one GPU. The older one is first, unless it is the one that has just used it."""
    projects = [{"name": "a", "members": ["*"]}, {"name": "b", "members": ["*"]}]
    settings = {"time_aware": time_aware, "usage_half_life": 1}
    live = await open_pool(ONE_GPU, node_pools=TRAIN, projects=projects, settings=settings)
    first = await live.submit(project="a")
    assert await live.runs(first) == [first]
    waiting = {name: await live.submit(project=name) for name in ("a", "b")}
    live.end(first)
    assert await live.runs(*waiting.values()) == [waiting[next_one]]
