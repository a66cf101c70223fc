"""Pods of notebook servers, created by a hub: bound to the node of their session, and counted once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from traitlets.config import Config

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.backend import Backend, Setup
from scheduler.engines.base import Grant, Seat
from scheduler.engines.kubernetes.backend import kubernetes
from scheduler.engines.kubernetes.inventory import ClusterInventory
from scheduler.engines.kubernetes.podviews import PodView
from scheduler.model import ForeignUse, Node, NodeName, Pool, SessionId, UserName, WorkerPlacement
from tests.engines.workplace import eventually
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok

SESSION = SessionId("s-0001")


class BackendSetup:
    """A scheduler's backend on a cluster; `start` it again after `end`, which simulates a kill."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str, node: NodeName) -> None:
        self.folder, self.cluster, self.namespace, self.name = folder, cluster, namespace, node
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.backend: Backend | None = None

    async def start(self) -> None:
        config = Config()
        config.Kubernetes.kubeconfig = str(self.cluster.kubeconfig)
        config.Kubernetes.namespace = config.Kubernetes.notebooks_namespace = self.namespace
        config.Kubernetes.image, config.Kubernetes.url = "any", "http://127.0.0.1:1/"
        self.backend = backend = kubernetes(Setup(StateFolder(self.folder), config=config))
        await backend.leadership.acquire()
        await backend.inventory.open(lambda: None)
        await backend.files.open()
        await backend.engine.open(lambda status: None)
        await backend.engine.recover([])

    async def end(self) -> None:
        assert self.backend is not None
        await self.backend.engine.close()
        await self.backend.files.close()
        await self.backend.inventory.close()
        await self.backend.leadership.release()

    def node(self) -> Node:
        assert self.backend is not None
        return next(node for node in self.backend.inventory.nodes(Pool()) if node.name == self.name)

    async def seat(self, gpus: int = 2) -> Grant:
        assert self.backend is not None
        placement = (WorkerPlacement(self.name, tuple(range(gpus))),)
        return await self.backend.engine.seat(Seat(SESSION, UserName("ann"), "", placement, {self.name: self.node()}))

    async def unseat(self) -> None:
        assert self.backend is not None
        await self.backend.engine.unseat(SESSION)

    def create(self, grant: Grant, gpus: int = 2, name: str = "notebook", pods: str = "") -> None:
        """Create a pod as a hub's spawner does."""
        assert grant.pod is not None
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1500m", "memory": "1Gi"}}
        container = {"name": "notebook", "image": "any", "resources": resources}
        spec = {"schedulerName": grant.pod.scheduler, "containers": [container]}
        self.cluster.create(
            pods or self.pods, {"metadata": {"name": name, "labels": dict(grant.pod.labels)}, "spec": spec}
        )

    def pod(self, name: str = "notebook") -> dict[str, Any] | None:
        answer = self.cluster.api.get(f"{self.pods}/{name}")
        found: dict[str, Any] | None = answer.json() if answer.is_success else None
        return found

    def is_bound(self) -> bool:
        """Whether it is, according to its events."""
        pod = self.pod()
        bound = pod is not None and pod["spec"].get("nodeName") == self.name
        return bound and f"Bound to node {self.name}." in self.events()

    def seen(self) -> list[PodView]:
        """The pods of the session known to the scheduler."""
        assert self.backend is not None
        assert isinstance(self.backend.inventory, ClusterInventory)
        return self.backend.inventory.of_session(SESSION)

    def events(self) -> list[str]:
        items = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/events").json()["items"]
        return [event["message"] for event in items]

    async def uses(self, foreign: ForeignUse) -> None:
        """Wait until foreign use of the node has this amount."""
        await eventually(lambda: self.node().foreign == foreign)


OURS = ForeignUse((), 0, 1500, 1024)
"""The use of `create`'s pod without the GPUs, which belong to its session."""


@pytest.fixture
def train_node(kwok: Kwok) -> Iterator[str]:
    with kwok.nodes(1) as (name,):
        yield name


@pytest.fixture
async def setup(cluster: Cluster, namespace: str, train_node: str, tmp_path: Path) -> AsyncIterator[BackendSetup]:
    (tmp_path / "state").mkdir(mode=0o700)
    setup = BackendSetup(tmp_path / "state", cluster, namespace, NodeName(train_node))
    calls = connections(cluster)
    await setup.start()
    await eventually(lambda: setup.node().schedulable)
    try:
        yield setup
    finally:
        await setup.end()
        await eventually(lambda: connections(cluster) <= calls)  # TLS connections close with a delay


def connections(cluster: Cluster) -> int:
    """How many connections this process has to the API server."""
    port = int(cluster.url.rpartition(":")[2])
    return sum(bool(each.raddr) and each.raddr.port == port for each in psutil.Process().net_connections("tcp"))


async def test_it_is_bound_to_the_node_of_its_session_and_counted_once(setup: BackendSetup) -> None:
    grant = await setup.seat()
    assert grant.pod is not None
    assert (grant.pod.limits, grant.env["RUNAI_GPUS"]) == ({"nvidia.com/gpu": "2"}, "0,1")
    setup.create(grant)
    await eventually(setup.is_bound)
    await setup.uses(OURS)
    await setup.unseat()
    assert setup.pod() is None
    await setup.uses(ForeignUse())


async def test_a_pod_that_was_there_first_is_bound_when_its_session_has_its_seat(setup: BackendSetup) -> None:
    grant = await setup.seat()
    await setup.unseat()
    setup.create(grant)
    await setup.seat()
    await eventually(setup.is_bound)


@pytest.mark.parametrize("bound", [False, True], ids=["before it was bound", "when it was bound"])
async def test_a_killed_scheduler_continues_with_it(setup: BackendSetup, bound: bool) -> None:
    grant = await setup.seat()
    if bound:
        setup.create(grant)
        await eventually(setup.is_bound)
    await setup.end()
    if not bound:
        setup.create(grant)
    await setup.start()
    await setup.seat()
    await eventually(setup.is_bound)
    await setup.uses(OURS)
    await setup.unseat()
    assert setup.pod() is None, "whoever seated it"


async def test_a_pod_that_requests_more_than_its_session_has_is_not_bound(setup: BackendSetup) -> None:
    setup.create(await setup.seat(), gpus=3)
    await eventually(lambda: setup.events() == ["It asks for 3 GPUs; its session has 2."])
    assert not setup.is_bound()


async def test_no_two_pods_of_a_session_are_bound(setup: BackendSetup) -> None:
    grant = await setup.seat()
    setup.create(grant)
    await eventually(setup.is_bound)
    setup.create(grant, name="second")
    await eventually(lambda: {pod.name: pod.node for pod in setup.seen()} == {"notebook": setup.name, "second": None})
    setup.cluster.api.delete(f"{setup.pods}/notebook")
    await eventually(lambda: [pod.node for pod in setup.seen()] == [setup.name])


async def test_our_label_on_a_pod_in_another_namespace_means_nothing(setup: BackendSetup) -> None:
    with setup.cluster.namespace() as elsewhere:
        grant = await setup.seat()
        pods = f"/api/v1/namespaces/{elsewhere}/pods"
        setup.create(grant, pods=pods)
        setup.create(grant)
        await eventually(setup.is_bound)
        target = {"kind": "Node", "name": setup.name}
        theirs: Callable[[], Any] = lambda: setup.cluster.api.get(f"{pods}/notebook").json()  # noqa: E731
        assert "nodeName" not in theirs()["spec"]
        setup.cluster.create(f"{pods}/notebook/binding", {"metadata": {"name": "notebook"}, "target": target})
        await setup.uses(ForeignUse((), 2000, 3000, 2048))
        await setup.unseat()
        await setup.uses(ForeignUse((), 2000, 1500, 1024))
        assert "deletionTimestamp" not in theirs()["metadata"]
