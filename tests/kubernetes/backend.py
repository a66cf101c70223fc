"""A backend of pods for tests: in its own namespace, on a node whose kubelet the test simulates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from traitlets.config import Config

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.agents.tokens import Worker
from scheduler.engines.backend import Backend, Setup
from scheduler.engines.kubernetes.backend import kubernetes
from scheduler.engines.kubernetes.names import pod_name
from scheduler.engines.local.ports import Ports
from scheduler.model import JobId, NodeName
from tests.engines.backends import BackendSetup
from tests.engines.remote import ADDRESS, answering
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import Kubelet

NODE = NodeName("here-train")


class ClusterBackendSetup(BackendSetup):
    """Pods in a separate namespace, on one node."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str) -> None:
        super().__init__(folder)
        self.kubelet = Kubelet(cluster.kubeconfig, NODE, namespace, folder.parent / "containers")
        (self.port,) = Ports(ADDRESS).take("scheduler", 1)
        self.config = Config()
        self.config.Kubernetes.kubeconfig = str(cluster.kubeconfig)
        self.config.Kubernetes.namespace = namespace
        self.config.Kubernetes.image = "any"
        self.config.Kubernetes.url = f"http://{ADDRESS}:{self.port}"

    def backend(self) -> Backend:
        return kubernetes(Setup(StateFolder(self.folder), config=self.config))

    @asynccontextmanager
    async def serving(self, backend: Backend) -> AsyncIterator[None]:
        async with answering(self.folder, backend, self.port):
            yield

    async def lose(self, job: str, rank: int) -> None:
        self.kubelet.kill(pod_name(Worker(JobId(job), 1, rank)))

    async def clear(self) -> None:
        await self.kubelet.close()
