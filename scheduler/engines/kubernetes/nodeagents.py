"""The agents of nodes, which report GPUs (`telemetry/nodeagent`): whose requests are accepted, and which GPUs the
processes of each worker use.

What must hold: an agent reports the GPUs of the node that its pod runs on, and of no other. The API server says for
which pod its token was issued, and the pod's node is known from the cluster.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.agents.uploads import Uploads
from scheduler.engines.backend import NodeAgents
from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.inventory import ClusterInventory
from scheduler.engines.kubernetes.names import PREFIX
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.engines.outputs import write_whole
from scheduler.errors import NotFound, Unavailable
from scheduler.model import NodeName
from scheduler.telemetry.reported import Reading, ReportedGpus

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCOUNT = "system:serviceaccount:"
POD_NAME, POD_UID = (f"authentication.kubernetes.io/pod-{each}" for each in ("name", "uid"))

VALID = 300.0
"""Seconds for which the API server's answer about a token holds. The pod must exist at every request."""

AT_ONCE = 8
"""Concurrent questions about tokens."""

FILE = "gpus.json"
"""The devices that the processes of a worker have used, in its folder."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod that a token was issued for, and until when this is taken for granted."""

    namespace: str
    name: str
    uid: str
    until: float


def audience(instance: str) -> str:
    """The audience of the tokens: another scheduler's agents, and other services, have other ones."""
    return f"{PREFIX}/{instance}"


class ClusterNodeAgents(NodeAgents):
    """`files` has the folders of workers."""

    def __init__(
        self, api: Api, inventory: ClusterInventory, reported: ReportedGpus, files: Uploads, settings: Kubernetes
    ) -> None:
        self._api = api
        self._inventory = inventory
        self._reported = reported
        self._files = files
        self._account = ACCOUNT + settings.node_agent.replace("/", ":")
        self._audience = audience(settings.instance)
        self._pods: dict[bytes, Pod] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._gpus: dict[Worker, tuple[str, ...]] = {}
        inventory.gpus_of = self._gpus_of

    async def node(self, token: str) -> NodeName | None:
        digest, now = hashlib.sha256(token.encode()).digest(), time.monotonic()
        pod = self._pods.get(digest)
        if pod is None or pod.until < now:
            async with self._turns:
                pod = await self._review(token)
            if pod is None:
                return None
            self._pods = {key: each for key, each in self._pods.items() if each.until >= now} | {digest: pod}
        found = self._inventory.pod(pod.namespace, pod.name)
        if found is None or found.uid != pod.uid or found.node is None or found.ended:
            return None
        return NodeName(found.node)

    async def take(self, node: NodeName, run: str, readings: Sequence[Reading]) -> float:
        await self._reported.take(node, run, readings)
        used: dict[Worker, set[str]] = {}
        known = self._reported.node(node)
        for device, sample in known.latest.items():
            for process in sample.processes:
                pod = None if process.pod is None else self._inventory.on_node(node, process.pod)
                if pod is not None and pod.worker is not None and self._inventory.live(pod.worker):
                    used.setdefault(pod.worker, set()).add(device)
        for worker, devices in used.items():
            before = self._gpus.get(worker)
            if before is None:
                before = await asyncio.to_thread(self._gpus_of, worker)
            after = tuple([each for each in known.devices if each in devices.union(before)])
            if after != before:
                await asyncio.to_thread(self._write, worker, after)
            self._gpus[worker] = after
        for worker in [worker for worker in self._gpus if not self._inventory.live(worker)]:
            del self._gpus[worker]
        return self._reported.every

    async def _review(self, token: str) -> Pod | None:
        """The pod that a token of our agents was issued for. Raises `Unavailable`."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        try:
            status: dict[str, Any] = (await self._api.create(REVIEWS, body)).get("status") or {}
        except ApiError as error:
            raise Unavailable(f"The token cannot be checked: {error}") from error
        user = status.get("user") or {}
        extra = user.get("extra") or {}
        if not status.get("authenticated") or user.get("username") != self._account or not extra.get(POD_UID):
            return None
        namespace = self._account.removeprefix(ACCOUNT).partition(":")[0]
        return Pod(namespace, extra[POD_NAME][0], extra[POD_UID][0], time.monotonic() + VALID)

    def _gpus_of(self, worker: Worker) -> tuple[str, ...]:
        """The devices that a worker's processes have used. Reads a file."""
        try:
            return self._gpus.get(worker) or tuple(json.loads(self._path(worker).read_bytes()))
        except (OSError, ValueError, NotFound):
            return ()

    def _write(self, worker: Worker, devices: tuple[str, ...]) -> None:
        self._path(worker).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path(worker), json.dumps(devices).encode())

    def _path(self, worker: Worker) -> Path:
        return self._files.folder(worker) / FILE
