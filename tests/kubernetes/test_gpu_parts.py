"""Parts of GPUs on a real cluster: as the cluster offers them, and never more than exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.errors import Invalid
from tests.app.conftest import until
from tests.kubernetes.images import PYTHON
from tests.kubernetes.node import SHARED, Node
from tests.kubernetes.programs import eventually
from tests.kubernetes.service import KubernetesService


@pytest.fixture
def sharing() -> str:
    return "mps"


@pytest.fixture
def shared(node: Node, sharing: str) -> Iterator[Node]:
    """The node, with one of its GPUs available, which the device plugin shares among four."""
    with node.sharing(4, sharing):
        yield node


def test_jobs_share_a_gpu_as_the_device_plugin_divides_it(service: KubernetesService, shared: Node) -> None:
    with service.config.open("a") as config:
        config.write(f"c.Kubernetes.gpu_parts = {{{SHARED!r}: 4}}\n")
    container = {"name": "other", "image": PYTHON, "imagePullPolicy": "Never", "command": ["sleep", "600"]}
    limits: dict[str, Any] = {"resources": {"limits": {SHARED: "1"}}}
    spec = {"nodeName": shared.name, "containers": [{**container, **limits}]}
    service.cluster.create(f"{service.path}/pods", {"metadata": {"name": "other"}, "spec": spec})
    sleep = ("python3", "-c", "import time; time.sleep(600)")
    service.start()
    until(lambda: [node for node in service.nodes() if node.get("foreign", {}).get("unnumbered") == 0.25])
    jobs = [
        service.submit(*sleep, gpus=0.25),
        service.submit(*sleep, gpu_memory_gib=16),
        service.submit(*sleep, gpus=0.1),
    ]
    more = service.submit(*sleep, gpus=0.25)
    for job in jobs:
        found = service.runs(job)
        assert found.total_gpus == 0.25
        assert "shares its GPU by MPS" in found.isolation
    asked = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in service.objects("pods")]
    assert asked == [{SHARED: "1"}] * 3
    assert "Needs" in until(lambda: service.job(more) if "Needs" in service.job(more).reason else None).reason
    for gpus, words in ((1, "only available in parts"), (0.5, "the largest part of a GPU is 0.25")):
        with pytest.raises(Invalid, match=words):
            service.submit(*sleep, gpus=gpus)
    with service.client() as client:
        for job in (more, *jobs):
            client.cancel(job.id)
    eventually("its pods are gone", lambda: not service.objects("pods"))


@pytest.mark.parametrize("sharing", ["time-slicing"])
def test_gpu_memory_limits_tell_the_container_toolkit_what_a_job_may_use(
    service: KubernetesService, shared: Node
) -> None:
    with service.config.open("a") as config:
        config.write(f"c.Kubernetes.gpu_parts = {{{SHARED!r}: 4}}\nc.Kubernetes.gpu_memory_limits = True\n")
    service.start()
    until(lambda: [node for node in service.nodes() if node["gpus"] == 1])
    job = service.submit("python3", "-c", "import time; time.sleep(600)", gpus=0.25)
    assert "the driver limits the GPU memory of each job" in service.runs(job).isolation
    (pod,) = service.objects("pods")
    variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    limits = [variables.get(f"NVIDIA_GPU_MEMORY_{name}") for name in ("REQUEST", "LIMIT")]
    assert limits == ["20480", "20480"], "of 80 GiB, in MiB"
    with service.client() as client:
        client.cancel(job.id)
    eventually("its pod is gone", lambda: not service.objects("pods"))
