from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.app.conftest import end_all
from tests.kubernetes.chart import NEEDED, define_resources, rendered
from tests.kubernetes.cluster import Cluster, running_cluster
from tests.kubernetes.kwok import Kwok, running_kwok
from tests.kubernetes.node import Node, running_node
from tests.kubernetes.operated import RESOURCE, Operated
from tests.kubernetes.service import KubernetesService


@pytest.fixture(autouse=True)
def connections_end(request: pytest.FixtureRequest) -> None:
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("closed_connections")


@pytest.fixture
async def closed_connections() -> AsyncIterator[None]:
    """A connection whose call was cancelled is closed once the API server has agreed, which may be after the test."""
    yield
    known = vars(asyncio.get_running_loop()).get("_transports", {})  # asyncio shows them in no other way
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            while any(each.get_extra_info("socket").fileno() >= 0 for each in list(known.values())):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


@pytest.fixture(scope="session")
def kwok(cluster: Cluster) -> Iterator[Kwok]:
    with running_kwok(cluster) as kwok:
        yield kwok


@pytest.fixture(scope="session")
def node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(cluster, tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest.fixture
def service(tmp_path: Path, cluster: Cluster, namespace: str, node: Node) -> Iterator[KubernetesService]:
    found = KubernetesService(tmp_path, cluster, namespace)
    yield found
    end_all(tmp_path)
    for process in found.spawned:
        process.wait()
    cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=1")


@pytest.fixture(scope="module")
def defined(cluster: Cluster) -> Iterator[Cluster]:
    """With an unschedulable node, so that jobs stay in the queue."""
    define_resources(cluster)
    amounts = {RESOURCE: "8", "cpu": "8", "memory": "64Gi", "pods": "9"}
    ready = [{"type": "Ready", "status": "True"}]
    node = {"metadata": {"name": "cordoned"}, "spec": {"unschedulable": True}}
    cluster.create(
        "/api/v1/nodes", {**node, "status": {"allocatable": amounts, "capacity": amounts, "conditions": ready}}
    )
    yield cluster
    cluster.api.delete("/api/v1/nodes/cordoned")


@pytest.fixture
def operated(tmp_path: Path, defined: Cluster, namespace: str) -> Iterator[Operated]:
    """With exactly the rights that the chart grants."""
    values = {**NEEDED, "operator": {"enabled": True}, "jobs": {"image": "any", "namespace": namespace}}
    manifests = rendered(tmp_path, values, namespace)
    kinds = ("ServiceAccount/", "ClusterRole", "Role")
    rights = [manifest for name, manifest in manifests.items() if name.startswith(kinds)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": rights})
    defined.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)
    user = {"token": defined.token_of(namespace, "runai")}
    found = Operated(tmp_path, defined, namespace, defined.write_kubeconfig(namespace, user))
    yield found
    end_all(tmp_path)
    for process in found.spawned:
        process.wait()
