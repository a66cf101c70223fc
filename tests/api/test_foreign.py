"""GPUs used outside the pool are not allocated: plans avoid them, and every view shows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from hub_spawner.choices import quota_view
from scheduler.cli.status import summary
from scheduler.client import AsyncClient
from scheduler.model import BUILD_POOL, ForeignUse, JobState, Node, NodeName
from scheduler.schema import PoolView
from tests.api.conftest import Service, eventually, start
from tests.engines.scripted import Machines, World, scripted

__all__ = ["start"]

DESK, N1 = Node(NodeName("desk"), gpus=2, node_pool=BUILD_POOL), Node(NodeName("n1"), gpus=4)


@pytest.fixture
async def service(start: Callable[..., Awaitable[Service]]) -> Service:
    return await start(backend=scripted(World(), DESK, N1))


async def others_use(service: Service, *nodes: Node) -> dict[str, Any]:
    """Set the foreign use of nodes; returns the pool's view."""
    machines: Machines = service.inventory
    machines.become(*nodes)

    async def told() -> dict[str, Any]:
        found: dict[str, Any] = (await service.http["owner"].get("pool")).json()
        return found

    expected = sum(node.foreign.amount for node in nodes) / 1000

    async def there() -> bool:
        pool = await told()
        return bool(pool["build"]["foreign"] + pool["train"]["foreign"] == expected)

    await eventually(there)
    return await told()


async def test_gpus_used_outside_the_pool_are_neither_free_nor_allocated(service: Service) -> None:
    first = await service.submit(gpus=1)
    await service.until(first["id"], JobState.RUNNING)  # on GPU 0
    pool = await others_use(service, DESK, replace(N1, foreign=ForeignUse(gpus=((0, 1000), (1, 1000), (2, 500)))))
    assert [gpu["foreign"] for gpu in pool["nodes"][1]["gpus"]] == [1, 1, 0.5, 0]
    assert pool["train"] == {"gpus": 4, "allocated": 1, "over_quota": 0, "free": 1.5, "foreign": 2.5, "failing": 0}

    waits, fits = await service.submit(gpus=2), await service.submit(gpus=1)
    await service.until(fits["id"], JobState.RUNNING)
    assert [worker.gpus for worker in service.controller.book.jobs[fits["id"]].placement] == [(3,)]
    assert service.controller.book.jobs[waits["id"]].state is JobState.QUEUED

    await others_use(service, DESK, N1)
    await service.until(waits["id"], JobState.RUNNING)


async def test_unnumbered_foreign_use_is_shown_on_gpus_without_workloads(service: Service) -> None:
    first = await service.submit(gpus=2)
    await service.until(first["id"], JobState.RUNNING)  # on GPUs 0 and 1
    pool = await others_use(service, DESK, replace(N1, foreign=ForeignUse(unnumbered=1500)))
    assert [gpu["foreign"] for gpu in pool["nodes"][1]["gpus"]] == [0, 0, 0.5, 1]
    assert pool["train"]["free"] == 0.5
    scraped = (await service.http["admin"].get(f"{service.url}metrics")).text
    assert 'runai_gpus{environment="train",state="foreign"} 1.5' in scraped


async def test_a_build_gpu_that_others_use_is_not_offered_to_a_server(service: Service) -> None:
    pool = await others_use(service, replace(DESK, foreign=ForeignUse(gpus=((0, 1000), (1, 1000)))), N1)
    assert pool["build"]["free"] == 0
    assert "2 used outside the pool" in summary(PoolView.model_validate(pool))
    async with AsyncClient(service.url, "admin") as client:
        offered = await quota_view(client, "ann")
    assert not offered.fits(1.0)
    assert [choice.note for choice in offered.choices() if choice.gpus == 1] == ["none of 2 build GPUs free now"]
    refused = await service.http["owner"].post("sessions", json={"user": "ann", "gpus": 1})
    assert refused.status_code == 503
