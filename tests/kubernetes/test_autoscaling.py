"""Cluster autoscalers see which jobs lack nodes: a scheduler with the chart's rights on a real API server.

The test adds the nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.schema import JobView
from tests.app.conftest import end_all, until
from tests.kubernetes.chart import NEEDED, rendered
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.service import KubernetesService

GPU = "nvidia.com/gpu"
PLACEHOLDER = "runai.jupyter.org/placeholder"


class Autoscaled(KubernetesService):
    """Shows at most four pods."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str) -> None:
        super().__init__(folder, cluster, namespace)
        manifests = rendered(
            folder, {**NEEDED, "jobs": {"image": "any", "namespace": namespace}, "autoscaling": {"pods": 4}}, namespace
        )
        config = json.loads(manifests["ConfigMap/runai"]["data"]["jupyter_runai_config.json"])["Kubernetes"]
        kinds = ("ServiceAccount/", "ClusterRole", "Role")
        rights = [each for name, each in manifests.items() if name.startswith(kinds)]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": rights})
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)
        kubeconfig = cluster.write_kubeconfig(namespace, {"token": cluster.token_of(namespace, "runai")})
        with self.config.open("a") as file:
            file.write(f"c.Kubernetes.kubeconfig = {str(kubeconfig)!r}\n")
            file.write(f"c.Kubernetes.autoscaling_pods = {config['autoscaling_pods']}\n")
            file.write("c.Kubernetes.pod_template['spec']['nodeSelector'] = {'type': 'kwok'}\n")

    def placeholders(self) -> list[dict[str, Any]]:
        pods = (pod for pod in self.objects("pods") if PLACEHOLDER in pod["metadata"]["labels"])
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def shows(self, *jobs: JobView) -> list[dict[str, Any]]:
        """Wait until it shows the workers of these jobs and no others, each with the reason of its job."""
        wanted = sorted(job.id for job in jobs for _ in range(job.workers))

        def found() -> list[dict[str, Any]] | None:
            pods = self.placeholders()
            if sorted(pod["metadata"]["labels"]["runai.jupyter.org/job"] for pod in pods) != wanted:
                return None
            return pods if all(self.marked(pod) for pod in pods) else None

        return until(found)

    def marked(self, pod: dict[str, Any]) -> bool:
        """Whether it is what the Cluster Autoscaler and Karpenter add nodes for."""
        assert "nodeName" not in pod["spec"]
        for each in pod["status"].get("conditions", ()):
            if (each["type"], each["status"], each["reason"]) == ("PodScheduled", "False", "Unschedulable"):
                job = pod["metadata"]["labels"]["runai.jupyter.org/job"]
                with self.client() as client:
                    return bool(each["message"] == client.job(job).reason)
        return False


@pytest.fixture
def service(tmp_path: Path, cluster: Cluster, namespace: str) -> Iterator[Autoscaled]:
    found = Autoscaled(tmp_path, cluster, namespace)
    yield found
    end_all(tmp_path)
    for process in found.spawned:
        process.wait()


def test_pods_show_what_the_jobs_first_in_line_lack_until_nodes_are_there(service: Autoscaled, kwok: Kwok) -> None:
    with kwok.nodes(1, gpus=2):
        service.start()
        until(lambda: any(node["gpus"] for node in service.nodes()))
        runs = service.submit("train", gpus=2)
        until(lambda: service.job(runs).state == "starting")
        gang = service.submit("train", gpus=2, workers=3)
        second = service.submit("train", gpus=2, workers=2)
        single = service.submit("train", gpus=1)
        *pods, alone = service.shows(gang, single) if gang.id < single.id else service.shows(gang, single)[::-1]
        spec = pods[0]["spec"]
        assert spec["schedulerName"] == "jupyter-runai"
        assert spec["nodeSelector"] == {"type": "kwok"}
        assert {"key": GPU, "operator": "Exists"} in spec["tolerations"]
        assert [pod["spec"]["containers"][0]["resources"]["requests"] for pod in pods] == [{GPU: "2"}] * 3
        assert alone["spec"]["containers"][0]["resources"]["requests"] == {GPU: "1"}

        service.kill()
        service.start()
        with service.client() as client:
            client.cancel(single.id)
        kept = {pod["metadata"]["uid"] for pod in service.shows(gang)}
        assert kept == {pod["metadata"]["uid"] for pod in pods}, "a restart keeps what is still right"

        with kwok.nodes(3, gpus=2) as nodes:
            until(lambda: service.job(gang).state == "starting")
            service.shows(second)
            workers = [pod for pod in service.objects("pods") if gang.id in pod["metadata"]["labels"].values()]
            assert sorted(pod["spec"]["nodeName"] for pod in workers) == nodes
            assert all("foreign" not in node for node in service.nodes())

            assert service.stop() == 0
            assert not service.placeholders(), "no job would start on new nodes"
            service.start()
            service.shows(second)
            service.kill()
            service.start("--Kubernetes.autoscaling_pods=0")
            until(lambda: not service.placeholders())
