"""A leader and its standby are killed, watches break and expire, the API server is slow, fails and loses responses,
pods and nodes are deleted, and others use the nodes, while jobs run on KWOK's nodes. Then the book is compared with the
cluster: nothing is lost or repeated, no GPU was allocated twice at any moment, and no object is left.

The checks use a separate watch (`history`) with every event of every pod. The short form has each kind of fault once;
the long one of `make chaos` has a thousand jobs and faults until they have ended.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

from hub_spawner.ports import any_free
from scheduler.client import AsyncClient
from scheduler.discovery.statefolder import Endpoint
from scheduler.errors import Conflict
from scheduler.model import JobState
from scheduler.schema import JobSubmit, JobView
from tests.app.conftest import Service, end_all
from tests.chaos.campaign import LONG, seed, tell
from tests.chaos.test_random_kills import insist
from tests.kubernetes.badapi import BadApi
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.forwarding import Address, forwarded
from tests.kubernetes.history import GPU, History, Pod
from tests.kubernetes.kwok import Kwok
from tests.store.conftest import postgresql_server, postgresql_url

__all__ = ["postgresql_server", "postgresql_url"]

JOBS = 1000 if LONG else 24
NODES, GPUS = 12, 8
CLIENTS = 20 if LONG else 8
T = TypeVar("T")

PATIENCE = 120.0
OURS = {"labelSelector": "app.kubernetes.io/managed-by=jupyter-runai"}


class Schedulers(Service):
    """A leader and its standby, which reach the API server at `port`."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str, port: int, db_url: str) -> None:
        kubeconfig = folder / "bad.kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig.read_text().replace(cluster.url, f"http://127.0.0.1:{port}"))
        config = folder / "config.py"
        config.write_text(
            "c.RunaiService.standby = True\n"
            f"c.Kubernetes.kubeconfig = {str(kubeconfig)!r}\n"
            f"c.Kubernetes.namespace = {namespace!r}\n"
            "c.Kubernetes.image = 'any'\n"
            "c.Kubernetes.url = 'http://there/'\n"
            "c.Kubernetes.lease_seconds = 6\n"
        )
        super().__init__(folder, "--engine=kubernetes", f"--db-url={db_url}", f"--config={config}")

    async def keep(self) -> None:
        """Restart ended processes, as a Deployment does."""
        while True:
            while len(self.alive()) < 2:
                await asyncio.to_thread(self.spawn)
            await asyncio.sleep(0.1)

    def alive(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self.spawned if process.poll() is None]

    def leading(self) -> Endpoint | None:
        endpoint = self.folder.endpoint()
        return endpoint if endpoint is not None and endpoint.pid in {each.pid for each in self.alive()} else None

    def address(self) -> Address | None:
        endpoint = self.leading()
        return None if endpoint is None else ("127.0.0.1", urlsplit(endpoint.url).port or 0)

    async def connected(self, port: int) -> AsyncClient:
        token = await when("there is a leader", lambda: self.folder.read_token() if self.leading() else None)
        return AsyncClient(f"http://127.0.0.1:{port}/", token)

    def kill(self, *, leader: bool = True) -> None:
        """`kill -9` one of them, if it is running."""
        found = self.leading()
        for process in self.alive():
            if (found is not None and found.pid == process.pid) is leader:
                process.kill()
                process.wait()


async def when(what: str, found: Callable[[], T | None], patience: float = PATIENCE) -> T:
    """The first result found; fails with `what` if there is none in time."""
    until = time.monotonic() + patience
    while not (answer := found()):
        assert time.monotonic() < until, f"after {patience:g} s still not: {what}"
        await asyncio.sleep(0.05)
    return answer


@dataclass
class Campaign:
    schedulers: Schedulers
    api: BadApi
    history: History
    namespace: str
    nodes: list[str]
    chance: random.Random
    jobs: dict[str, int] = field(default_factory=dict)
    """The number of workers of each."""
    cancelled: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    """The number of faults by kind."""
    taken: set[str] = field(default_factory=set)
    """The jobs that have lost a pod: a job avoids that node for a while."""

    async def run(self, port: int) -> None:
        async with await self.schedulers.connected(port) as client:
            people = [asyncio.create_task(self.work(client)) for _ in range(CLIENTS)]
            troubling = asyncio.create_task(self.trouble())
            try:
                await asyncio.gather(*people)
                if LONG:
                    troubling.cancel()
                with suppress(asyncio.CancelledError):
                    await troubling
                self.api.be_good()
                await self.remove_foreign()
                for job in self.jobs:
                    await self.check_end(client, job)
                await self.check_book(client)
            finally:
                for task in (*people, troubling):
                    task.cancel()

    # -- users --------------------------------------------------------------------------------------------------

    async def work(self, client: AsyncClient) -> None:
        """Submit jobs, cancel some, and wait for some."""
        for _ in range(JOBS // CLIENTS):
            workers, gpus = self.chance.choice((1, 1, 1, 2)), self.chance.choice((1, 1, 2, 4))
            sent = JobSubmit(command=["true"], workers=workers, gpus=gpus)
            key = str(uuid.UUID(int=self.chance.getrandbits(128)))
            job = (await insist(partial(client.submit, sent, idempotency_key=key))).id
            self.history.codes[job] = self.chance.choice((0, 0, 0, 0, 3))
            self.jobs[job] = workers
            what = self.chance.random()
            if what < 0.1:
                self.cancelled.add(job)
                with suppress(Conflict):  # it has ended
                    await insist(partial(client.cancel, job))
            elif what < 0.6:
                await self.ended(client, job)

    async def ended(self, client: AsyncClient, job: str) -> JobView:
        until = time.monotonic() + PATIENCE
        while not (found := await insist(partial(client.job, job))).state.final:
            if time.monotonic() > until:
                pytest.fail(f"It has not ended: {found!r}, {self.history.of(job)}")
            await asyncio.sleep(0.2)
        return found

    # -- faults -------------------------------------------------------------------------------------------------

    async def trouble(self) -> None:
        """Each kind of fault, in random order."""
        often = [self.drop_watches, self.expire_watches, self.delete_a_pod, self.be_slow, self.fail]
        often += [self.delete_a_node, self.use_a_node, self.use_a_node, self.remove_foreign]
        kinds = [self.kill_the_leader, self.kill_the_standby, *often * (4 if LONG else 1)]
        while True:
            self.chance.shuffle(kinds)
            for kind in kinds:
                await asyncio.sleep(self.chance.uniform(0, 0.5))
                await kind()
                self.done[kind.__name__] += 1
            if not LONG:
                return

    async def kill_the_leader(self) -> None:
        await asyncio.to_thread(self.schedulers.kill)
        if self.chance.random() < 0.7:  # else the next one may be killed while it takes over
            await when("there is a leader", self.schedulers.leading)

    async def kill_the_standby(self) -> None:
        await asyncio.to_thread(self.schedulers.kill, leader=False)

    async def drop_watches(self) -> None:
        self.api.drop_watches()

    async def expire_watches(self) -> None:
        self.api.drop_watches(too_old=True)

    async def be_slow(self) -> None:
        self.api.lateness = 0.3
        await asyncio.sleep(self.chance.uniform(0.5, 1.5))
        self.api.lateness = 0.0

    async def fail(self) -> None:
        self.api.fails = self.api.loses = 0.1
        await asyncio.sleep(self.chance.uniform(0.5, 1.5))
        self.api.fails = self.api.loses = 0.0

    async def delete_a_pod(self) -> None:
        """Delete a pod of a job, once for each job."""
        found = self.some_pods()
        if found and self.history.take([pod := self.chance.choice(found)]):
            assert pod.worker is not None
            self.taken.add(pod.worker.job)
            await self.history.api.delete(pod.path, uid=pod.uid)

    def some_pods(self) -> list[Pod]:
        """The running pods of jobs that have not lost any."""
        return [pod for pod in self.history.running() if pod.worker and pod.worker.job not in self.taken]

    async def delete_a_node(self) -> None:
        """Replace a machine, with the loss of its pods."""
        pods = self.some_pods()
        name = self.chance.choice([pod.node for pod in pods] or self.nodes)
        pods = [pod for pod in self.history.pods.values() if pod.node == name and pod.worker]
        if not self.history.take(pods):
            return  # a recent end there might not be seen
        self.taken |= {pod.worker.job for pod in pods if pod.worker}
        self.history.gone.add(name)
        self.nodes.remove(name)
        node = await self.history.api.get(f"/api/v1/nodes/{name}")
        await self.history.api.delete(f"/api/v1/nodes/{name}")
        metadata = {kind: node["metadata"][kind] for kind in ("labels", "annotations")}
        new = f"{name}-{uuid.UUID(int=self.chance.getrandbits(128)).hex[:6]}"
        amounts = {kind: node["status"][kind] for kind in ("allocatable", "capacity")}
        await self.history.api.create("/api/v1/nodes", {"metadata": {**metadata, "name": new}, "status": amounts})
        self.nodes.append(new)
        for pod in [pod for pod in self.history.pods.values() if pod.node == name]:
            await self.history.api.delete(pod.path, grace=0, uid=pod.uid)  # the control plane does, after a minute

    async def use_a_node(self) -> None:
        """Bind a foreign pod."""
        path, name = "/api/v1/namespaces/default/pods", f"foreign-{self.chance.getrandbits(64):x}"
        limits = {"limits": {GPU: str(self.chance.choice((1, 4, 8)))}}
        spec = {"schedulerName": "others", "containers": [{"name": "c", "image": "any", "resources": limits}]}
        await self.history.api.create(path, {"metadata": {"name": name, "labels": {"foreign": "yes"}}, "spec": spec})
        target = {"kind": "Node", "name": self.chance.choice(self.nodes)}
        await self.history.api.create(f"{path}/{name}/binding", {"metadata": {"name": name}, "target": target})

    async def remove_foreign(self) -> None:
        for pod in [pod for pod in self.history.pods.values() if pod.name.startswith("foreign-")]:
            await self.history.api.delete(pod.path, grace=0)

    # -- invariants ---------------------------------------------------------------------------------------------

    async def check_end(self, client: AsyncClient, job: str) -> None:
        """It ended as its workers did, and ran once."""
        ended = await self.ended(client, job)
        expected = JobState.FAILED if self.history.codes[job] else JobState.SUCCEEDED
        states = {expected, JobState.CANCELLED} if job in self.cancelled else {expected}
        assert ended.state in states, f"{ended!r}"
        done = self.history.ended
        ranks = Counter(worker.attempt for worker in done if worker.job == job)
        whole = [attempt for attempt, count in ranks.items() if count == self.jobs[job]]
        if expected is JobState.SUCCEEDED and ended.state is expected:
            last = {worker.rank for worker in done | self.history.unheard if worker[:2] == (job, len(ended.attempts))}
            assert len(last) == self.jobs[job], f"{job} was not done: {ended!r}"
            assert whole in ([], [len(ended.attempts)]), f"{job} was done in attempts {whole}: {ended!r}"

    async def check_book(self, client: AsyncClient) -> None:
        """The book matches the cluster, which has none of the scheduler's objects left."""
        assert self.history.wrong == []
        until = time.monotonic() + PATIENCE
        while left := [found for kind in ("pods", "secrets", "services") for found in await self.objects(kind)]:
            assert time.monotonic() < until, f"still there: {left}"
            await asyncio.sleep(0.2)
        while not self.is_idle(snapshot := await insist(client.snapshot)):
            assert time.monotonic() < until, f"the book has {snapshot}, and the cluster {sorted(self.nodes)}"
            await asyncio.sleep(0.2)
        figures = {
            "jobs": len(self.jobs),
            "attempts": len({(worker.job, worker.attempt) for worker in self.history.seen}),
            "GPUs held at the same time": self.history.most,
            **self.done,
            **self.api.seen,
        }
        for figure, value in figures.items():
            tell(f"chaos on a cluster: {figure.replace('_', ' ')}", value)

    def is_idle(self, snapshot: dict[str, Any]) -> bool:
        """Whether the scheduler sees the current nodes (`others_cordoned` are cordoned), with nothing on them."""
        nodes = {node["name"]: node for node in snapshot["nodes"] if node.get("schedulable", True)}
        assert not snapshot.get("jobs"), snapshot["jobs"]
        return set(nodes) == set(self.nodes) and all(
            node["gpus"] == GPUS and not node.get("foreign") for node in nodes.values()
        )

    async def objects(self, kind: str) -> list[str]:
        found = await self.history.api.get(f"/api/v1/namespaces/{self.namespace}/{kind}", **OURS)
        return [item["metadata"]["name"] for item in found["items"]]


@contextmanager
def others_cordoned(cluster: Cluster) -> Iterator[None]:
    """The real nodes of other tests take no pods meanwhile: nobody writes those pods' ends."""
    names = cluster.kubectl("get", "nodes", "-l", "type!=kwok", "-o", "jsonpath={.items[*].metadata.name}").split()
    for name in names:
        cluster.kubectl("cordon", name)
    try:
        yield
    finally:
        for name in names:
            cluster.kubectl("uncordon", name)


@asynccontextmanager
async def campaign(
    folder: Path, cluster: Cluster, kwok: Kwok, namespace: str, db_url: str
) -> AsyncIterator[tuple[Campaign, int]]:
    chance = random.Random(seed())
    calls, port = any_free(), any_free()
    async with AsyncExitStack() as stack:
        stack.enter_context(others_cordoned(cluster))
        nodes = stack.enter_context(kwok.nodes(NODES, GPUS))
        api = BadApi(cluster, chance)
        await stack.enter_async_context(api.serving(calls))
        history = History(cluster, chance, GPUS)
        await stack.enter_async_context(history.written())
        schedulers = Schedulers(folder, cluster, namespace, calls, db_url)
        stack.enter_context(forwarded("127.0.0.1", port, schedulers.address))
        stack.callback(lambda: [process.wait() for process in schedulers.spawned])
        stack.callback(end_all, folder)
        keeping = asyncio.create_task(schedulers.keep())
        try:
            yield Campaign(schedulers, api, history, namespace, nodes, chance), port
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def test_jobs_come_and_go_whatever_happens_to_the_cluster(
    tmp_path: Path, cluster: Cluster, kwok: Kwok, namespace: str, postgresql_url: str
) -> None:
    async with campaign(tmp_path, cluster, kwok, namespace, postgresql_url) as (found, port):
        await found.run(port)
