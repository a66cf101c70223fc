"""The time to fill a KWOK cluster (4,000 one-GPU jobs on 500 nodes of 8), compared with a bare client that creates and
binds as many pods on the same API server; the time to bind one job on an idle cluster; and the scheduler's cost while
those 4,000 jobs run and nothing changes.

Requires `make kubernetes`; without it, prints a message and no figures.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from scheduler.worker.agent.requests import LONG_WAIT
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.load import GPUS, Pods, Scheduler, bare_pods, calls, figure, run, scheduler

NODES = 500
JOBS = NODES * GPUS
ROUNDS = 20
STEADY = 2.0 * LONG_WAIT
"""Seconds, in which each agent asks for orders twice."""


async def main(folder: Path, cluster: Cluster, kwok: Kwok, namespace: str) -> None:
    with kwok.nodes(NODES, GPUS) as nodes:
        async with bare_pods(cluster, namespace) as pods:
            async with pods.watched():
                begun = time.perf_counter()
                await pods.fill(nodes)
                await pods.until(JOBS)
                bare = time.perf_counter() - begun
            await pods.clear()
            figure(f"a bare client binds {JOBS:,} pods", bare, "s")
            with scheduler(folder, cluster, namespace) as found:
                await alone(pods, found)
                async with found.agents(await fill(pods, found, cluster, bare)):
                    await steady(found)


async def alone(pods: Pods, found: Scheduler) -> None:
    """One job after the other, each bound before the next."""
    took = []
    async with pods.watched():
        for number in range(ROUNDS):
            await asyncio.sleep(0.1)
            begun = time.perf_counter()
            job = await found.post("jobs", {"command": ["true"], "gpus": 1})
            await pods.until(number + 1)
            took.append(time.perf_counter() - begun)
            await found.post(f"jobs/{job['id']}/cancel", {})
        await pods.gone()
    figure("one job on an idle cluster, submitted → bound, median", 1000 * statistics.median(took), "ms")


async def fill(pods: Pods, found: Scheduler, cluster: Cluster, bare: float) -> list[str]:
    before, used = calls(cluster), found.used()
    async with pods.watched():
        begun = time.perf_counter()
        jobs = await found.submit(pods, JOBS)
        took = time.perf_counter() - begun
    figure(f"{JOBS:,} jobs submitted → bound", took, "s")
    figure(f"{JOBS:,} jobs submitted → bound, against the bare client", took / bare, "times")
    figure("the scheduler's processor time for it", found.used() - used, "s")
    figure("calls of the API for each pod bound", (calls(cluster) - before) / JOBS, "calls")
    figure("the scheduler's memory", found.process.memory_info().rss / 2**20, "MiB")
    return jobs


async def steady(found: Scheduler) -> None:
    """Waits for unfinished requests first."""
    await asyncio.sleep(STEADY / 4)
    used, begun = found.used(), time.perf_counter()
    await asyncio.sleep(STEADY)
    share = (found.used() - used) / (time.perf_counter() - begun)
    figure(f"{JOBS:,} jobs run and nothing happens: of a core", 100 * share, "%")


if __name__ == "__main__":
    run(main)
