"""Fleets of nodes simulated by KWOK: real objects on the real API server, whose pods run nothing."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.programs import Program, find

STAGES = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
)
"""The stages of nodes and pods: files from KWOK's sources."""
LABEL = "type=kwok"
AT_ONCE = 16


class Kwok:
    """KWOK for a cluster. A pod bound to one of its nodes runs immediately, and disappears immediately when deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        stages = find("kwok").parent / "stage"
        configs = [f"--config={stages / stage}.yaml" for stage in STAGES]
        arguments = [f"--kubeconfig={cluster.kubeconfig}", f"--manage-nodes-with-label-selector={LABEL}"]
        self.program = Program("kwok", [*arguments, *configs], cluster.folder)

    @contextlib.contextmanager
    def nodes(self, count: int, gpus: int = 8, labels: dict[str, str] | None = None, *, cpus: int = 128,
              memory: str = "1Ti") -> Iterator[list[str]]:  # fmt: skip
        """Ready nodes with these GPUs each, while the context is open; yields their names."""
        fleet = f"fleet-{uuid.uuid4().hex[:8]}"
        amounts = {"cpu": str(cpus), "memory": memory, "pods": "256"}
        if gpus:
            amounts["nvidia.com/gpu"] = str(gpus)
        names = [f"{fleet}-{number:04}" for number in range(count)]

        def create(name: str) -> None:
            marks = {"type": "kwok", "fleet": fleet, "kubernetes.io/hostname": name, **(labels or {})}
            metadata = {"name": name, "labels": marks, "annotations": {"kwok.x-k8s.io/node": "fake"}}
            status = {"allocatable": amounts, "capacity": amounts}
            self.cluster.create("/api/v1/nodes", {"metadata": metadata, "status": status})

        try:
            with ThreadPoolExecutor(AT_ONCE) as threads:
                list(threads.map(create, names))
            self.program.wait("the nodes are ready", lambda: sum(map(_is_ready, self._list(fleet))) == count)
            yield names
        finally:
            self._clear(fleet)
            self.cluster.api.delete("/api/v1/nodes", params={"labelSelector": f"fleet={fleet}"})

    def _clear(self, fleet: str) -> None:
        """Delete the pods on these nodes immediately: with their node gone, their ends would not be reported."""

        def delete(pod: dict[str, Any]) -> None:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            self.cluster.api.delete(path, params={"gracePeriodSeconds": 0})

        pods = self.cluster.api.get("/api/v1/pods").json()["items"]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(delete, (pod for pod in pods if pod["spec"].get("nodeName", "").startswith(fleet))))

    def _list(self, fleet: str) -> list[dict[str, Any]]:
        listed = self.cluster.api.get("/api/v1/nodes", params={"labelSelector": f"fleet={fleet}"}).json()
        items: list[dict[str, Any]] = listed["items"]
        return items


def _is_ready(node: dict[str, Any]) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    return ready and not node["spec"].get("taints")


@contextlib.contextmanager
def running_kwok(cluster: Cluster) -> Iterator[Kwok]:
    kwok = Kwok(cluster)
    kwok.program.start()
    try:
        yield kwok
    finally:
        kwok.program.stop()
