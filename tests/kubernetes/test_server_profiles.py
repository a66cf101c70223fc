"""The pod of a notebook server has what its profile says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.hub import KubeHub, running_hub
from tests.kubernetes.node import Node, running_node

PROFILES = """
c.LeaseSpawner.profiles = [
    {"name": "Small"},
    {"name": "Lab", "gpus": 1, "cpus": 0.5, "memory_gib": 1, "image": c.KubeSpawner.image, "ide": "jupyterlab"},
    {"name": "Large", "gpus": 2, "groups": ["research"]},
]
c.KubeSpawner.image = "never-pulled"
"""


@pytest.fixture(scope="module")
def hub(cluster: Cluster, node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeHub]:
    with (
        running_node(cluster, tmp_path_factory.mktemp("build"), gpus=2, place=2) as build,
        running_hub(tmp_path_factory.mktemp("hub"), cluster, build, node, more=PROFILES) as hub,
    ):
        yield hub


def test_its_pod_has_the_gpus_cpus_memory_and_image(hub: KubeHub) -> None:
    hub.add("ann")
    assert "fits: 0 of 2 in use" in hub.login("ann").get("/hub/spawn").text
    hub.spawn("ann", profile="Lab")
    (pod,) = hub.pods(hub.notebooks)
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1", "cpu": "500m", "memory": str(2**30)}
    assert container["image"] != "never-pulled"
    assert {"name": "JUPYTERHUB_DEFAULT_URL", "value": "/lab"} in container["env"]
    hub.stop_server("ann")


def test_a_profile_of_a_group_is_refused_to_others(hub: KubeHub) -> None:
    hub.add("bea")
    with pytest.raises(AssertionError, match=r"choose one of: Small, Lab\.$"):
        hub.spawn("bea", profile="Large")
    assert hub.server("bea") is None
