"""How long it takes to fill a cluster of KWOK's: 4,000 jobs of one GPU on 500 nodes of 8, beside a bare client that
creates and binds as many pods on the same API server; and how long one job on an idle cluster takes to be bound.

Needs what `make kubernetes` builds; says so and gives no figure where that is not there.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import psutil

from hub_spawner.ports import any_free
from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.kubernetes.api import Api
from scheduler.engines.kubernetes.mirror import Mirror
from tests.kubernetes.cluster import Cluster, running_cluster
from tests.kubernetes.kwok import running_kwok
from tests.kubernetes.programs import find

NODES, GPUS = 500, 8
JOBS = NODES * GPUS
ARRAY = min(1000, JOBS)
AT_ONCE = 64
ROUNDS = 20
PATIENCE = 60.0
"""Seconds without a pod more."""


def figure(name: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": f"Kubernetes: {name}", "value": value, "unit": unit}), flush=True)


class Pods:
    """The pods of a namespace, with all rights and without a scheduler's thoughts."""

    def __init__(self, cluster: Cluster, namespace: str, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.below = f"/api/v1/namespaces/{namespace}/pods"
        self.path = cluster.url + self.below
        self.bound = 0
        self.changed = asyncio.Event()
        self._api = Api(str(cluster.kubeconfig))

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """`bound` counts those that were bound from now on."""

        def count(before: str | None, after: str | None) -> None:
            self.bound += not before and bool(after)
            self.changed.set()

        await self._api.open()
        mirror = Mirror(self._api, self.below, lambda pod: str(pod["spec"].get("nodeName", "")), count)
        await mirror.open()
        self.bound = 0
        try:
            yield
        finally:
            await mirror.close()
            await self._api.close()

    async def until(self, bound: int) -> None:
        while self.bound < bound:
            self.changed.clear()
            async with asyncio.timeout(PATIENCE):
                await self.changed.wait()

    async def fill(self, nodes: list[str]) -> None:
        """Create and bind a pod for each GPU, so many at a time as the engine does."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with turns:
                name = f"bare-{number}"
                container = {"name": "worker", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
                spec = {"schedulerName": "bare", "containers": [container], "restartPolicy": "Never"}
                await self.post("", {"metadata": {"name": name}, "spec": spec})
                target = {"kind": "Node", "name": nodes[number // GPUS]}
                await self.post(f"/{name}/binding", {"metadata": {"name": name}, "target": target})

        await asyncio.gather(*(one(number) for number in range(JOBS)))

    async def post(self, below: str, body: dict[str, Any]) -> None:
        async with self.session.post(self.path + below, json=body) as answer:
            assert answer.status < 300, await answer.text()

    async def clear(self) -> None:
        async with self.session.delete(self.path, params={"gracePeriodSeconds": "0"}):
            pass
        await self.gone()

    async def gone(self) -> None:
        left = 1
        while left:
            async with self.session.get(self.path, params={"limit": "1"}) as answer:
                left = len((await answer.json())["items"])
            await asyncio.sleep(0.1)


@contextmanager
def scheduler(folder: Path, cluster: Cluster, namespace: str) -> Iterator[tuple[httpx.AsyncClient, psutil.Process]]:
    port = any_free()
    options = {
        "kubeconfig": cluster.kubeconfig,
        "namespace": namespace,
        "image": "any",
        "url": f"http://127.0.0.1:{port}/",
    }
    command = [sys.executable, "-m", "scheduler.service.app", "--engine=kubernetes", f"--port={port}"]
    command += [f"--state-dir={folder / 'state'}", *(f"--Kubernetes.{name}={value}" for name, value in options.items())]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env={**os.environ, "RUNAI_AUTH": "token"}
        )
    try:
        state = StateFolder(folder / "state")
        while (found := state.endpoint()) is None or found.pid != process.pid:
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.02)
        headers = {"Authorization": f"Bearer {state.read_token()}"}
        client = httpx.AsyncClient(base_url=f"{found.url}api/v1/", headers=headers, timeout=60)
        yield client, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def calls(cluster: Cluster) -> int:
    """How many calls that clients such as the engine make the API server has answered."""
    text = cluster.api.get("/metrics").text
    wanted = re.compile(
        r'^apiserver_request_total\{(?=[^}]*resource="(?:pods|secrets|services)")'
        r'(?=[^}]*verb="(?:POST|GET|DELETE|PUT)")[^}]*\} (\d+)$',
        re.MULTILINE,
    )
    return sum(int(number) for number in wanted.findall(text))


async def main(folder: Path, cluster: Cluster, nodes: list[str]) -> None:
    trusted = aiohttp.TCPConnector(limit=AT_ONCE + 2, ssl=ssl.create_default_context(cafile=str(cluster.ca)))
    headers = {"Authorization": f"Bearer {cluster.token}"}
    with cluster.namespace() as namespace:
        async with aiohttp.ClientSession(connector=trusted, headers=headers, read_bufsize=2**21) as session:
            pods = Pods(cluster, namespace, session)
            async with pods.watched():
                begun = time.perf_counter()
                await pods.fill(nodes)
                await pods.until(JOBS)
                bare = time.perf_counter() - begun
            await pods.clear()
            figure(f"a bare client binds {JOBS:,} pods", bare, "s")
            with scheduler(folder, cluster, namespace) as (client, process):
                await alone(pods, client)
                await fill(pods, client, process, cluster, bare)
            await pods.clear()


async def alone(pods: Pods, client: httpx.AsyncClient) -> None:
    """One job after the other, each bound before the next."""
    took = []
    async with pods.watched():
        for number in range(ROUNDS):
            await asyncio.sleep(0.1)
            begun = time.perf_counter()
            answer = await client.post("jobs", json={"command": ["true"], "gpus": 1})
            await pods.until(number + 1)
            took.append(time.perf_counter() - begun)
            await client.post(f"jobs/{answer.json()['id']}/cancel")
        await pods.gone()
    figure("one job on an idle cluster, submitted → bound, median", 1000 * statistics.median(took), "ms")


async def fill(pods: Pods, client: httpx.AsyncClient, process: psutil.Process, cluster: Cluster, bare: float) -> None:
    before, used = calls(cluster), sum(process.cpu_times()[:2])
    array = {"job": {"command": ["true"], "gpus": 1}, "members": [{"index": index} for index in range(ARRAY)]}
    async with pods.watched():
        begun = time.perf_counter()
        requests: list[Awaitable[httpx.Response]] = [client.post("arrays", json=array) for _ in range(JOBS // ARRAY)]
        for answer in await asyncio.gather(*requests):
            assert answer.status_code == 201, answer.text
        await pods.until(JOBS)
        took = time.perf_counter() - begun
    figure(f"{JOBS:,} jobs submitted → bound", took, "s")
    figure(f"{JOBS:,} jobs submitted → bound, against the bare client", took / bare, "times")
    figure("the scheduler's processor time for it", sum(process.cpu_times()[:2]) - used, "s")
    figure("calls of the API for each pod bound", (calls(cluster) - before) / JOBS, "calls")
    figure("the scheduler's memory", process.memory_info().rss / 2**20, "MiB")


if __name__ == "__main__":
    try:
        find("kwok"), find("kube-apiserver")
    except BaseException as skipped:  # as a test would be
        sys.exit(f"There are no figures of Kubernetes: {skipped}")
    with (
        tempfile.TemporaryDirectory() as name,
        running_cluster(Path(name)) as running,
        running_kwok(running) as kwok,
        kwok.nodes(NODES, GPUS) as fleet,
    ):
        asyncio.run(main(Path(name), running, fleet))
