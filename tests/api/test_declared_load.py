"""A load that the pool file declares for declared GPUs is shown and marked. (The controller cannot import it.)"""

from __future__ import annotations

from typing import Any

from scheduler.model import JobState
from tests.api.conftest import SCRAPE, Service

LOAD = {"use": 0.9, "memory_gib": 40, "used_memory_gib": 30, "power_watts": 200, "temperature": 75}


async def apply(service: Service, **settings: Any) -> int:
    file = (await service.http["admin"].get("pool/file")).json()
    return (await service.http["admin"].post("pool/apply", json={**file, "settings": settings})).status_code


async def test_declared_gpus_are_shown_with_their_declared_load_and_prometheus_does_not_have_it(
    service: Service,
) -> None:
    assert await apply(service, declared_load=LOAD) == 200
    job = await service.submit(gpus=0.5)
    await service.until(job["id"], JobState.RUNNING)
    admin, inventory = service.http["admin"], service.app.settings["api"].inventory
    (worker,) = (await admin.get(f"jobs/{job['id']}")).json()["attempts"][0]["workers"]
    node, gpu = worker["node"], worker["gpus"][0]

    (shown,) = [each for each in (await admin.get("pool")).json()["nodes"] if each["name"] == node]
    use = {key: shown["gpus"][gpu][key] for key in ("utilisation", "used_memory_gib", "memory_gib", "declared")}
    assert use == {"utilisation": 0.45, "used_memory_gib": 15, "memory_gib": 40, "declared": True}
    now = (await admin.get(f"nodes/{node}/gpus")).json()
    assert (now["declared"], now["measured"]) == (True, False)
    busy, free = now["gpus"][gpu], now["gpus"][gpu - 1]
    assert (busy["power_watts"], busy["temperature"], busy["processes"]) == (115, 55, [])
    assert (free["utilisation"], free["power_watts"], free["temperature"]) == (0, 30, 35)

    inventory.record(inventory.samples(service.controller.book.nodes), int(service.app.settings["api"].clock()))
    history = (await admin.get(f"nodes/{node}/gpus/{gpu}/history")).json()
    assert (history["declared"], [point["utilisation"] for point in history["points"]]) == (True, [0.45])
    attempt = (await admin.get(f"jobs/{job['id']}/gpu-use")).json()
    assert attempt["declared"] is True

    metrics = await service.http["nobody"].get("../../metrics", headers={"Authorization": f"Bearer {SCRAPE}"})
    assert metrics.status_code == 200
    assert "0.45" not in metrics.text

    assert await apply(service) == 200
    (shown,) = [each for each in (await admin.get("pool")).json()["nodes"] if each["name"] == node]
    assert (shown["gpus"][gpu]["utilisation"], shown["gpus"][gpu]["declared"]) == (None, False)
    assert await apply(service, declared_load={"memory_gib": 10, "used_memory_gib": 11}) == 422
