"""The page on providers, as far as an API server can check it: its values, its commands, and nodes with the providers'
labels and taints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from traitlets.config import Config

from scheduler.engines.kubernetes.nodeviews import NodeView, node_view
from scheduler.engines.kubernetes.podviews import GpuResources
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.engines.kubernetes.template import merge
from tests.kubernetes.chart import NEEDED, rendered
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes-providers.md"
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))

SPOT = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"
DISCOVERED = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", SECTIONS[section], re.DOTALL)


def options(section: str) -> dict[str, Any]:
    """The engine's options in a section."""
    found: dict[str, Any] = {}
    for block in blocks(section, "yaml"):
        found = merge(found, yaml.safe_load(block)["jobs"]["options"])
    return found


@pytest.mark.parametrize("section", [name for name in SECTIONS if blocks(name, "yaml")])
def test_the_values_of_the_page_are_accepted(section: str, tmp_path: Path) -> None:
    rendered(tmp_path, merge(NEEDED, {"jobs": {"options": options(section)}}))
    Kubernetes(config=Config(Kubernetes=options(section)))


@pytest.mark.parametrize(
    ("section", "labels", "taints", "needed"),
    [
        ("AKS", DISCOVERED, ["sku=gpu:NoSchedule", SPOT], True),
        ("EKS", DISCOVERED, ["nvidia.com/gpu=true:NoSchedule"], False),
        ("GKE", {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, ["nvidia.com/gpu=present:NoSchedule"], False),
        ("Your own machines", DISCOVERED, [], False),
    ],
)
def test_nodes_of_providers_are_used(
    section: str, labels: dict[str, str], taints: list[str], needed: bool, cluster: Cluster, kwok: Kwok
) -> None:
    """`needed`: the test fails without the page's values."""
    with kwok.nodes(1, labels=labels) as (name,):
        if taints:
            cluster.kubectl("taint", "node", name, *taints)
        for command in "".join(blocks("Check the nodes", "bash") + blocks(section, "bash")).splitlines():
            program, *arguments = shlex.split(command)
            assert program == "kubectl"
            cluster.kubectl(*arguments)
        node = cluster.api.get(f"/api/v1/nodes/{name}").json()

    def view(**own: Any) -> NodeView:
        settings = Kubernetes(config=Config(Kubernetes=own))
        offers = GpuResources(settings.gpu_resource, settings.gpu_parts)
        return node_view(node, offers, settings.topology_labels, settings.tolerations)

    seen = view(**options(section))
    assert (seen.open, seen.gpus) == (True, 8)
    assert seen.gpu_type
    assert view().open is not needed
