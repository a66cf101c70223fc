from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import end_all
from tests.kubernetes.cluster import Cluster, running_cluster
from tests.kubernetes.kwok import Kwok, running_kwok
from tests.kubernetes.node import Node, running_node
from tests.kubernetes.service import KubernetesService


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
