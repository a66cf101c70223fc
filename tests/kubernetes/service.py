"""The running service on a real cluster: a scheduler whose jobs are pods."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from hub_spawner.ports import any_free
from scheduler.model import JobState
from scheduler.schema import JobSubmit, JobView
from tests.app.conftest import Service, until
from tests.kubernetes.cluster import HOST, Cluster
from tests.kubernetes.images import PYTHON
from tests.kubernetes.programs import eventually

PATIENCE = 120.0


class KubernetesService(Service):
    """A scheduler whose jobs run in a namespace of a cluster, in an image without this project's files."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str) -> None:
        self.port = any_free()
        config = folder / "config.py"
        own = {"imagePullPolicy": "Never"}
        config.write_text(
            f"c.Kubernetes.kubeconfig = {str(cluster.kubeconfig)!r}\n"
            f"c.Kubernetes.namespace = {namespace!r}\n"
            f"c.Kubernetes.image = {PYTHON!r}\n"
            f"c.Kubernetes.url = 'http://{HOST}:{self.port}/'\n"
            f"c.Kubernetes.pod_template = {{'spec': {{'containers': [{{'name': 'worker', **{own!r}}}]}}}}\n"
        )
        super().__init__(folder, "--engine=kubernetes", "--ip=0.0.0.0", f"--port={self.port}", f"--config={config}")
        self.cluster = cluster
        self.path = f"/api/v1/namespaces/{namespace}"
        self.config = config

    def mount(self, folders: Mapping[str, str]) -> None:
        """Mount folders of the node, by name, in all pods at the same paths."""
        volumes = [{"name": name, "hostPath": {"path": path}} for name, path in folders.items()]
        mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, path in folders.items()]
        with self.config.open("a") as config:
            config.write(f"c.Kubernetes.pod_template['spec']['volumes'] = {volumes!r}\n")
            config.write(f"c.Kubernetes.pod_template['spec']['containers'][0]['volumeMounts'] = {mounts!r}\n")

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """This project's objects of a kind in the namespace."""
        label = {"labelSelector": "app.kubernetes.io/managed-by=jupyter-runai"}
        items: list[dict[str, Any]] = self.cluster.api.get(f"{self.path}/{kind}", params=label).json()["items"]
        return items

    def submit(self, *command: str, **more: Any) -> JobView:
        with self.client() as client:
            return client.submit(JobSubmit(command=list(command), **more))

    def job(self, job: JobView) -> JobView:
        with self.client() as client:
            return client.job(job.id)

    def ended(self, job: JobView) -> JobView:
        with self.client() as client:
            return client.wait(job.id, timeout=PATIENCE)

    def runs(self, job: JobView) -> JobView:
        def running() -> JobView | None:
            found = self.job(job)
            assert not JobState(found.state).final, (found.reason, self.log.read_text())
            return found if found.state == "running" else None

        return until(running)

    def log_of(self, job: JobView, rank: int = 0) -> str:
        with self.client() as client:
            return b"".join(client.logs(job.id, rank=rank)).decode()

    def log_of_now(self, job: JobView) -> str:
        """Its output so far."""
        with self.client() as client:
            return client.log(job.id).decode()

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes of the pool, as a scenario has them."""
        endpoint = self.folder.endpoint()
        assert endpoint is not None
        headers = {"Authorization": f"Bearer {self.folder.read_token()}"}
        answer = httpx.get(f"{endpoint.url}api/v1/pool/snapshot", headers=headers)
        nodes: list[dict[str, Any]] = answer.json()["nodes"]
        return nodes

    def leaves_nothing(self) -> None:
        for kind in ("pods", "secrets", "services"):
            eventually(f"no {kind} are left", lambda kind=kind: not self.objects(kind))  # type: ignore[misc]
