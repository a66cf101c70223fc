"""An engine's traits decide what jobs may request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler.engines.base import Traits
from scheduler.model import BUILD_POOL, JobState, Node, NodeName
from scheduler.telemetry import GpuUsage
from tests.api.conftest import Service, start
from tests.engines.scripted import World, scripted

__all__ = ["start"]

NODES = (Node(NodeName("desk"), gpus=2, node_pool=BUILD_POOL), Node(NodeName("n1"), gpus=4))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def service(start: Callable[..., Awaitable[Service]], world: World, traits: Traits) -> Service:
    return await start(backend=replace(scripted(world, *NODES), traits=traits))


@pytest.mark.parametrize("traits", [Traits(shares=False)])
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


@pytest.mark.parametrize("traits", [Traits(picks_gpus=True), Traits()])
async def test_an_engine_that_picks_gpus_gets_their_number(service: Service, world: World, traits: Traits) -> None:
    jobs = [await service.submit(gpus=2) for _ in range(2)]
    for job in jobs:
        await service.until(job["id"], JobState.RUNNING)
    seen = [world.placements[job["id"], 1].workers[0].gpus for job in jobs]
    assert seen == ([(0, 1), (0, 1)] if traits.picks_gpus else [(0, 1), (2, 3)])
    for user, gpu in (("ann", "0"), ("ben", "0" if traits.picks_gpus else "1")):
        opened = await service.http["admin"].post("sessions", json={"user": user, "gpus": 1})
        assert opened.json()["env"] == {"CUDA_VISIBLE_DEVICES": gpu, "RUNAI_GPUS": gpu}


@pytest.mark.parametrize("traits", [Traits(picks_gpus=True), Traits()])
async def test_no_use_is_shown_for_a_job_whose_gpu_the_engine_picks(service: Service, traits: Traits) -> None:
    service.inventory.use = {("n1", gpu): GpuUsage(0.9, 1024, 2048) for gpu in range(4)}
    job = await service.submit(gpus=1)
    await service.until(job["id"], JobState.RUNNING)
    _, node = (await service.http["owner"].get("pool")).json()["nodes"]
    assert [gpu["utilisation"] for gpu in node["gpus"]] == [None if traits.picks_gpus else 0.9, 0.9, 0.9, 0.9]


@pytest.mark.parametrize("traits", [Traits(shared_folders=False), Traits()])
async def test_where_workers_read_no_folder_of_the_users_a_script_is_sent(service: Service, traits: Traits) -> None:
    where_it_lies = {"kind": "script", "command": ["python", "/home/ann/train.py"]}
    answer = await service.http["owner"].post("jobs", json=where_it_lies)
    assert answer.status_code == (201 if traits.shared_folders else 422)
    if not traits.shared_folders:
        assert answer.json()["field"] == "bundle"
        assert answer.json()["detail"] == (
            "The workers of this pool cannot read your folders; send the script with the job (without --no-files)."
        )
    assert (await service.http["owner"].post("jobs", json={"command": ["true"]})).status_code == 201
    assert (await service.http["owner"].post("jobs/check", json=where_it_lies)).status_code == 204  # not sent yet
