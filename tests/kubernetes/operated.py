"""A scheduler that follows the custom resources of a cluster, and kubectl beside it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx

from scheduler.engines.agents.tokens import Tokens, Worker
from scheduler.model import JobId
from scheduler.schema import JobView
from tests.app.conftest import Service
from tests.kubernetes.cluster import Cluster

RESOURCE = "tests.local/gpu"
API = "apiVersion: runai.jupyter.org/v1alpha1\n"


class Operated(Service):
    """Its TrainJobs are in `namespace`."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str, kubeconfig: Path) -> None:
        config = folder / "config.py"
        config.write_text(
            "c.RunaiService.operator = True\n"
            f"c.Kubernetes.kubeconfig = {str(kubeconfig)!r}\n"
            f"c.Kubernetes.namespace = {namespace!r}\n"
            "c.Kubernetes.image = 'any'\n"
            "c.Kubernetes.url = 'http://there/'\n"
            f"c.Kubernetes.gpu_resource = {RESOURCE!r}\n"
        )
        super().__init__(folder, "--engine=kubernetes", f"--config={config}")
        self.cluster = cluster
        self.namespace = namespace

    def annotate(self, user: str, namespace: str = "") -> None:
        of = namespace or self.namespace
        self.cluster.kubectl("annotate", "--overwrite", "namespace", of, f"runai.jupyter.org/user={user}")

    def apply(self, name: str, spec: str = "command: [python3, train.py]", namespace: str = "") -> None:
        head = f"{API}kind: TrainJob\nmetadata: {{name: {name}, namespace: {namespace or self.namespace}}}\n"
        self.cluster.kubectl("apply", "-f", "-", stdin=f"{head}spec:\n  {spec}\n")

    def apply_project(self, name: str, spec: str) -> None:
        self.cluster.kubectl(
            "apply", "-f", "-", stdin=f"{API}kind: Project\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )

    def get(self, *what: str) -> dict[str, Any] | None:
        """A resource; `None` if deleted."""
        found = self.cluster.kubectl("get", *what, "-n", self.namespace, "-o", "json", "--ignore-not-found")
        return json.loads(found) if found else None

    def status(self, *what: str) -> dict[str, Any]:
        status: dict[str, Any] = (self.get(*what) or {}).get("status", {})
        return status

    def condition(self, type_: str, *what: str) -> dict[str, Any] | None:
        """A condition for the resource's current generation."""
        found = self.get(*what) or {}
        generation = found.get("metadata", {}).get("generation")
        conditions = found.get("status", {}).get("conditions", ())
        about = (each for each in conditions if each["type"] == type_ and each["observedGeneration"] == generation)
        return next(about, None)

    def delete(self, *what: str, wait: bool = True) -> None:
        self.cluster.kubectl("delete", *what, "-n", self.namespace, f"--wait={str(wait).lower()}", "--timeout=60s")

    def jobs(self) -> list[JobView]:
        with self.client() as client:
            return list(client.jobs().jobs)

    def states(self) -> dict[str, str]:
        """Of the jobs, each of which runs once its pod has started: KWOK's pods have no agents."""
        endpoint, tokens = self.folder.endpoint(), Tokens(self.folder)
        assert endpoint is not None
        jobs = self.jobs()
        for job in jobs:
            if job.state == "starting":
                token = tokens.of(Worker(JobId(job.id), job.attempts[-1].number, 0))
                said = {"agent": "a" * 32, "state": "running", "started": time.time()}
                headers = {"Authorization": f"Bearer {token}"}
                httpx.post(f"{endpoint.url}api/v1/agent/state", json=said, headers=headers)
        return {job.name: job.state for job in jobs}
