"""Gangs on a KWOK cluster with 500 nodes of 8 GPUs: the time to bind 512 workers of one GPU, the time to report why a
gang of ten nodes cannot start on a full cluster, and the time to bind 250 workers of 8 GPUs where 2,000 of 4,000
running jobs have to be stopped.

KWOK's pods end as soon as they are deleted. Requires `make kubernetes`.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.load import GPUS, Pods, Scheduler, bare_pods, figure, run, scheduler

NODES = 500
JOBS = NODES * GPUS
GANG, LARGE = 512, 250
PROJECT = "large"


async def main(folder: Path, cluster: Cluster, kwok: Kwok, namespace: str) -> None:
    with kwok.nodes(NODES, GPUS):
        async with bare_pods(cluster, namespace) as pods:
            with scheduler(folder, cluster, namespace) as found:
                answer = await found.client.put(f"projects/{PROJECT}", json={"name": PROJECT, "guaranteed": JOBS // 2})
                assert answer.is_success, answer.text
                await gang(pods, found)
                async with pods.watched():
                    jobs = await found.submit(pods, JOBS)
                async with found.agents(jobs):
                    await verdict(found)
                await reclaim(pods, found)


async def gang(pods: Pods, found: Scheduler) -> None:
    async with pods.watched():
        begun, used = time.perf_counter(), found.used()
        job = await found.post("jobs", {"command": ["true"], "workers": GANG})
        await pods.until(GANG)
        figure(f"a gang of {GANG} pods, submitted → bound", time.perf_counter() - begun, "s")
        figure(f"a gang of {GANG} pods: the scheduler's processor time", found.used() - used, "s")
        await found.post(f"jobs/{job['id']}/cancel", {})
        await pods.gone()


async def verdict(found: Scheduler) -> None:
    begun = time.perf_counter()
    job = await found.post("jobs", {"command": ["true"], "workers": 10, "gpus": GPUS})
    while not (await found.client.get(f"jobs/{job['id']}")).json()["blocked_by"]:
        pass
    figure("a gang that cannot start, submitted → why", time.perf_counter() - begun, "s")
    await found.post(f"jobs/{job['id']}/cancel", {})


async def reclaim(pods: Pods, found: Scheduler) -> None:
    async with pods.watched():
        begun, used = time.perf_counter(), found.used()
        await found.post("jobs", {"command": ["true"], "workers": LARGE, "gpus": GPUS, "project": PROJECT})
        await pods.until(LARGE)
        name = f"a gang of {LARGE} reclaims {LARGE * GPUS:,} GPUs"
        figure(f"{name}, submitted → bound", time.perf_counter() - begun, "s")
        figure(f"{name}: the scheduler's processor time", found.used() - used, "s")


if __name__ == "__main__":
    run(main)
