"""The scheduler's start on a cluster with 5,000 nodes of 8 GPUs and 20,000 foreign pods: the time until it is ready,
and its memory.

The nodes are only objects: nothing renews their leases, and no controller watches them. Requires `make kubernetes`;
without it, prints a message and no figures.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import MERGE_PATCH
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.load import AT_ONCE, GPUS, Pods, bare_pods, figure, run, scheduler

NODES, EACH = 5000, 4


async def main(folder: Path, cluster: Cluster, kwok: Kwok, namespace: str) -> None:
    cluster.controller_manager.kill()  # it would consider the nodes dead
    async with bare_pods(cluster, namespace) as pods:
        turns = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(create(number, cluster, pods, turns) for number in range(NODES)))
    of = f"{NODES:,} nodes and {NODES * EACH:,} pods"
    with scheduler(folder, cluster, namespace) as found:
        figure(f"{of}: the scheduler's start", found.ready, "s")
        figure(f"{of}: its processor time for it", found.used(), "s")
        pool = (await found.client.get("pool")).json()
        assert pool["train"]["gpus"] == NODES * GPUS, pool
        figure(f"{of}: the scheduler's memory", found.process.memory_info().rss / 2**20, "MiB")


async def create(number: int, cluster: Cluster, pods: Pods, turns: asyncio.Semaphore) -> None:
    """Create a ready node with its pods."""
    name, nodes = f"node-{number}", f"{cluster.url}/api/v1/nodes"
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "256", "nvidia.com/gpu": str(GPUS)}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    node: dict[str, Any] = {
        "metadata": {"name": name},
        "status": {"allocatable": amounts, "capacity": amounts, **ready},
    }
    container = {"name": "worker", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    async with turns:
        async with pods.session.post(nodes, json=node) as answer:
            assert answer.status == 201, await answer.text()
        open_ = {"spec": {"taints": None}}
        async with pods.session.patch(f"{nodes}/{name}", json=open_, headers={"Content-Type": MERGE_PATCH}) as answer:
            assert answer.status == 200, await answer.text()
        for each in range(EACH):
            await pods.post(
                "", {"metadata": {"name": f"{name}-{each}"}, "spec": {"nodeName": name, "containers": [container]}}
            )


if __name__ == "__main__":
    run(main)
