"""What an engine declares of itself decides what may be asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler.engines.base import Traits
from scheduler.model import Node
from tests.api.conftest import Service, start
from tests.engines.scripted import World, scripted

__all__ = ["start"]

NODES = (Node("desk", gpus=2, node_pool="build"), Node("n1", gpus=4))


@pytest.fixture
async def service(start: Callable[..., Awaitable[Service]]) -> Service:
    return await start(backend=replace(scripted(World(), *NODES), traits=Traits(shares=False)))


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("jobs", {"command": ["true"], "gpus": 0.5}, "gpus"),
        ("jobs/check", {"command": ["true"], "gpu_memory_gib": 8}, "gpu_memory_gib"),
        ("sessions", {"user": "ann", "gpus": 0.5}, "gpus"),
    ],
)
async def test_an_engine_that_cannot_share_a_gpu_is_asked_for_whole_ones(
    service: Service, path: str, body: dict[str, Any], field: str
) -> None:
    answer = await service.http["owner"].post(path, json=body)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    assert answer.json()["detail"] == "This pool cannot share a GPU; ask for whole GPUs."
    assert (await service.http["owner"].post("jobs", json={"command": ["true"], "gpus": 2})).status_code == 201
