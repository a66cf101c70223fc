"""Shared by the benchmarks on KWOK's nodes: a bare client that creates and binds pods, a scheduler on the cluster, and
the agents that KWOK's pods lack."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import psutil

from hub_spawner.ports import any_free
from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.agents.tokens import Tokens, Worker
from scheduler.engines.kubernetes.api import Api
from scheduler.engines.kubernetes.mirror import Mirror
from scheduler.model import JobId
from scheduler.worker.agent.requests import LONG_WAIT
from tests.kubernetes.cluster import Cluster, running_cluster
from tests.kubernetes.kwok import Kwok, running_kwok
from tests.kubernetes.programs import find

GPUS = 8
"""GPUs of each node."""
AT_ONCE = 64
ARRAY = 1000
PATIENCE = 60.0
"""Seconds without another pod."""


def figure(name: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": f"Kubernetes: {name}", "value": value, "unit": unit}), flush=True)


class Pods:
    """A bare client for the pods of a namespace, with all rights and without scheduling."""

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

    async def fill(self, nodes: Sequence[str], each: int = GPUS) -> None:
        """Create and bind `each` pods of one GPU on each node, with the engine's concurrency."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with turns:
                name = f"bare-{number}"
                container = {"name": "worker", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
                spec = {"schedulerName": "bare", "containers": [container], "restartPolicy": "Never"}
                await self.post("", {"metadata": {"name": name}, "spec": spec})
                target = {"kind": "Node", "name": nodes[number // each]}
                await self.post(f"/{name}/binding", {"metadata": {"name": name}, "target": target})

        await asyncio.gather(*(one(number) for number in range(len(nodes) * each)))

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


@dataclass
class Scheduler:
    """A scheduler on the cluster, and its cost."""

    folder: StateFolder
    url: str
    client: httpx.AsyncClient
    process: psutil.Process
    ready: float
    """Its start-up time in seconds."""

    def used(self) -> float:
        """Its CPU time, in seconds."""
        return float(sum(self.process.cpu_times()[:2]))

    async def submit(self, pods: Pods, jobs: int) -> list[str]:
        """Submit jobs of one GPU, and wait until their pods are bound; returns their ids."""
        until = pods.bound + jobs
        array = {"job": {"command": ["true"], "gpus": 1}, "members": [{"index": index} for index in range(ARRAY)]}
        answers = await asyncio.gather(*(self.post("arrays", array) for _ in range(jobs // ARRAY)))
        await pods.until(until)
        return [job["id"] for answer in answers for job in answer["jobs"]]

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self.client.post(path, json=body)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    @asynccontextmanager
    async def agents(self, jobs: Sequence[str]) -> AsyncIterator[None]:
        """The agents of one-worker jobs: each reports that it runs, and waits for orders as real ones do.

        Entered once each has been answered, so that nothing measured inside competes with their connecting.
        """
        tokens = Tokens(self.folder)
        turns, began = asyncio.Semaphore(AT_ONCE), time.time()
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(f"{self.url}api/v1/agent/", connector=connector) as session:

            async def begin(job: str) -> dict[str, str]:
                headers = {"Authorization": f"Bearer {tokens.of(Worker(JobId(job), 1, 0))}"}
                said = {"agent": uuid.uuid4().hex, "state": "running", "started": began}
                async with turns, session.post("state", json=said, headers=headers) as answer:
                    assert answer.status == 204, await answer.text()
                return headers

            async def ask(headers: dict[str, str], seen: int) -> int:
                query = {"after": str(seen), "wait": str(LONG_WAIT)}
                async with session.get("orders", params=query, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()
                    return int((await answer.json())["number"])

            async def first_ask(headers: dict[str, str]) -> int:
                async with turns:  # the service limits the connections that open from one address at a time
                    return await ask(headers, 0)

            async def follow(headers: dict[str, str], seen: int) -> None:
                while True:
                    seen = await ask(headers, seen)

            every = await asyncio.gather(*map(begin, jobs))
            first = await asyncio.gather(*map(first_ask, every))
            following = [asyncio.create_task(follow(*each)) for each in zip(every, first, strict=True)]
            try:
                yield
                assert not any(task.done() for task in following)
            finally:
                for task in following:
                    task.cancel()
                await asyncio.gather(*following, return_exceptions=True)


@contextmanager
def scheduler(folder: Path, cluster: Cluster, namespace: str) -> Iterator[Scheduler]:
    port = any_free()
    options = {
        "kubeconfig": cluster.kubeconfig,
        "namespace": namespace,
        "image": "any",
        "url": f"http://127.0.0.1:{port}/",
    }
    command = [sys.executable, "-m", "scheduler.service.app", "--engine=kubernetes", f"--port={port}"]
    command += [f"--state-dir={folder / 'state'}", *(f"--Kubernetes.{name}={value}" for name, value in options.items())]
    begun = time.perf_counter()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env={**os.environ, "RUNAI_AUTH": "token"}
        )
    try:
        state = StateFolder(folder / "state")
        while (found := state.endpoint()) is None or found.pid != process.pid:
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.02)
        ready = time.perf_counter() - begun
        headers = {"Authorization": f"Bearer {state.read_token()}"}
        client = httpx.AsyncClient(base_url=f"{found.url}api/v1/", headers=headers, timeout=60)
        yield Scheduler(state, found.url, client, psutil.Process(process.pid), ready)
    finally:
        process.terminate()
        process.wait()


def calls(cluster: Cluster) -> int:
    """How many calls of clients such as the engine the API server has answered."""
    text = cluster.api.get("/metrics").text
    wanted = re.compile(
        r'^apiserver_request_total\{(?=[^}]*resource="(?:pods|secrets|services)")'
        r'(?=[^}]*verb="(?:POST|GET|DELETE|PUT)")[^}]*\} (\d+)$',
        re.MULTILINE,
    )
    return sum(int(number) for number in wanted.findall(text))


@asynccontextmanager
async def bare_pods(cluster: Cluster, namespace: str) -> AsyncIterator[Pods]:
    trusted = aiohttp.TCPConnector(limit=AT_ONCE + 2, ssl=ssl.create_default_context(cafile=str(cluster.ca)))
    headers = {"Authorization": f"Bearer {cluster.token}"}
    async with aiohttp.ClientSession(connector=trusted, headers=headers, read_bufsize=2**21) as session:
        yield Pods(cluster, namespace, session)


Main = Callable[[Path, Cluster, Kwok, str], Coroutine[None, None, None]]


def run(main: Main) -> None:
    """Run `main(folder, cluster, kwok, namespace)` on a cluster of its own."""
    try:
        find("kwok"), find("kube-apiserver")
    except BaseException as skipped:  # as a test would be skipped
        sys.exit(f"There are no figures of Kubernetes: {skipped}")
    with (
        tempfile.TemporaryDirectory() as name,
        running_cluster(Path(name)) as cluster,
        running_kwok(cluster) as kwok,
        cluster.namespace() as namespace,
    ):
        asyncio.run(main(Path(name), cluster, kwok, namespace))
