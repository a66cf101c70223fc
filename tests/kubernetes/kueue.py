"""Kueue and the default scheduler beside a cluster, for the pods of one namespace: the real programs, and Kueue's
resources and webhooks as its sources install them."""

from __future__ import annotations

import contextlib
import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hub_spawner.ports import any_free
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.programs import Program, find

SERVICE = "kueue-webhook-service"
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
WEBHOOKS = ("clusterqueue", "cohort", "pod", "resourceflavor", "workload")
GPU = "nvidia.com/gpu"
API = "kueue.x-k8s.io/v1beta2"


class Kueue:
    """`home` is its own namespace; it manages the pods of `namespace`."""

    def __init__(self, cluster: Cluster, folder: Path, home: str, namespace: str) -> None:
        self.cluster, self.home, self.namespace = cluster, home, namespace
        self.port = any_free()
        self.certificates = folder / "certificates"
        self.certificates.mkdir()
        config = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": home,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{any_free()}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": self.port, "host": "127.0.0.1", "certDir": str(self.certificates)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": "cert"},
            "managedJobsNamespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "integrations": {"frameworks": ["pod"]},
        }
        file = folder / "kueue.yaml"
        file.write_text(yaml.safe_dump(config))
        self.program = Program(
            "kueue",
            [f"--config={file}", f"--kubeconfig={cluster.kubeconfig}", "--feature-gates=VisibilityOnDemand=false"],
            folder,
        )
        self.scheduler = Program(
            "kube-scheduler", [f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false", "--secure-port=0"], folder
        )

    def apply(self, *manifests: dict[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        self.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)

    def start(self) -> None:
        self.scheduler.start()
        sources = find("kueue").parent / "kueue-config"
        self.cluster.create(f"/api/v1/namespaces/{self.home}/secrets", {"metadata": {"name": "cert"}})
        # It stands for the address of the program, which runs in no pod.
        name = {"metadata": {"name": SERVICE}}
        spec = {"type": "ExternalName", "externalName": "localhost"}
        self.cluster.create(f"/api/v1/namespaces/{self.home}/services", {**name, "spec": spec})
        self.apply(*map(self._definition, sorted((sources / "crd" / "bases").glob("*.yaml"))))
        self.apply(*map(self._webhooks, yaml.safe_load_all((sources / "webhook" / "manifests.yaml").read_text())))
        self.program.start()
        self.program.wait("Kueue has its certificate", self._has_certificate)
        self.program.wait("Kueue admits resources", self._admits)

    def stop(self) -> None:
        kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        for kind in kinds:
            name = f"kueue-{kind.removesuffix('webhookconfigurations')}-webhook-configuration"
            self.cluster.api.delete(f"/apis/admissionregistration.k8s.io/v1/{kind}/{name}")
        self.program.stop()
        self.scheduler.stop()
        for kind in CONVERTED:  # without their conversion, nothing of them can be read
            self.cluster.api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.kueue.x-k8s.io")

    def queues(self, quotas: dict[str, int]) -> None:
        """A LocalQueue of each name, on a ClusterQueue with that many GPUs; they lend to each other, and take back."""
        own = {"apiVersion": API, "metadata": {"name": "any"}}
        self.apply({**own, "kind": "ResourceFlavor"})
        for name, gpus in quotas.items():
            amounts = [{"name": GPU, "nominalQuota": gpus}] + [
                {"name": resource, "nominalQuota": 1000} for resource in ("cpu", "memory")
            ]
            flavors = [{"name": "any", "resources": amounts}]
            spec = {
                "cohortName": "all",
                "namespaceSelector": {},
                "preemption": {"reclaimWithinCohort": "Any"},
                "resourceGroups": [{"coveredResources": [GPU, "cpu", "memory"], "flavors": flavors}],
            }
            self.apply({"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
            metadata = {"name": name, "namespace": self.namespace}
            self.apply({"apiVersion": API, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": name}})

    def workloads(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster.api.get(f"/apis/{API}/namespaces/{self.namespace}/workloads").json()[
            "items"
        ]
        return found

    # -- as `kubectl apply -k config/default` does it ---------------------------------------------------------

    def _client(self, path: str | None = None) -> dict[str, Any]:
        where = {"path": path} if path else {"path": "/convert"}
        return {"service": {"name": SERVICE, "namespace": self.home, "port": self.port, **where}}

    def _definition(self, file: Path) -> dict[str, Any]:
        definition: dict[str, Any] = yaml.safe_load(file.read_text())
        if definition["spec"]["names"]["plural"] in CONVERTED:
            webhook = {"clientConfig": self._client(), "conversionReviewVersions": ["v1"]}
            definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return definition

    def _webhooks(self, configuration: dict[str, Any]) -> dict[str, Any]:
        """Those of its own resources, and of the pods that it manages."""
        configuration["metadata"]["name"] = f"kueue-{configuration['metadata']['name']}"
        wanted = [each for each in configuration["webhooks"] if each["name"][1:].removesuffix(".kb.io") in WEBHOOKS]
        for each in wanted:
            each["clientConfig"] = self._client(each["clientConfig"]["service"]["path"])
            if each["name"].endswith("pod.kb.io"):
                each["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        return {**configuration, "webhooks": wanted}

    def _has_certificate(self) -> bool:
        """Mount its Secret, as the kubelet would."""
        secret = self.cluster.api.get(f"/api/v1/namespaces/{self.home}/secrets/cert").json()
        for name, content in secret.get("data", {}).items():
            (self.certificates / name).write_bytes(b64decode(content))
        return "tls.crt" in secret.get("data", {})

    def _admits(self) -> bool:
        body = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
        answer = self.cluster.api.post(f"/apis/{API}/resourceflavors", json=body, params={"dryRun": "All"})
        return answer.is_success


@contextlib.contextmanager
def running_kueue(cluster: Cluster, folder: Path, namespace: str) -> Iterator[Kueue]:
    """Skips where its program is missing."""
    find("kueue"), find("kube-scheduler")
    with cluster.namespace("kueue-") as home:
        kueue = Kueue(cluster, folder, home, namespace)
        try:
            kueue.start()
            yield kueue
        finally:
            kueue.stop()
