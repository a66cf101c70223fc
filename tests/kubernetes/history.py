"""The history of all pods of a cluster, in the API server's order, and a substitute for kubelets: KWOK's nodes do not
end containers, so it is done here."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scheduler.engines.kubernetes.api import Api, ApiError
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import MERGE_PATCH

PREFIX = "runai.jupyter.org"
GPU = "nvidia.com/gpu"


class Worker(NamedTuple):
    job: str
    attempt: int
    rank: int


@dataclass(frozen=True)
class Pod:
    """A pod at one moment. `worker` is set if it belongs to the scheduler under test."""

    name: str
    namespace: str
    uid: str
    node: str
    gpus: int
    phase: str
    deleting: bool
    worker: Worker | None

    @property
    def holds(self) -> bool:
        """Whether it has its GPUs."""
        return bool(self.node) and self.phase not in ("Succeeded", "Failed")

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


def pod_of(item: Mapping[str, Any]) -> Pod:
    metadata, spec = item["metadata"], item["spec"]
    labels = metadata.get("labels", {})
    worker = None
    if f"{PREFIX}/job" in labels:
        worker = Worker(*(labels[f"{PREFIX}/{name}"] for name in ("job", "attempt", "rank")))
        worker = Worker(worker.job, int(worker.attempt), int(worker.rank))
    gpus = sum(int(each.get("resources", {}).get("limits", {}).get(GPU, 0)) for each in spec["containers"])
    return Pod(
        metadata["name"],
        metadata["namespace"],
        metadata["uid"],
        spec.get("nodeName", ""),
        gpus,
        item["status"].get("phase", ""),
        "deletionTimestamp" in metadata,
        worker,
    )


@dataclass
class History:
    """`pods` are the current pods. `wrong` are sentences about violations.

    With `codes`, a worker's container ends by itself some time after its start, with the given status.
    """

    cluster: Cluster
    chance: random.Random
    gpus: int
    codes: dict[str, int] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    ended: set[Worker] = field(default_factory=set)
    """The workers that have finished."""
    unheard: set[Worker] = field(default_factory=set)
    """The workers that finished while their pods were being deleted: it need not have been seen."""
    gone: set[str] = field(default_factory=set)
    """Removed nodes: the reported states of their pods are not reliable."""
    seen: set[Worker] = field(default_factory=set)
    most: int = 0
    """The GPUs that workers held at the same time."""
    _ending: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _begun: set[str] = field(default_factory=set)
    """The pods whose ends are being reported."""

    def of(self, job: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.worker and pod.worker.job == job]

    def running(self) -> list[Pod]:
        """The pods of workers that have neither ended nor begun to end."""
        return [pod for pod in self.pods.values() if pod.worker and pod.uid in self._ending.keys() - self._begun]

    def take(self, pods: Sequence[Pod]) -> bool:
        """Keep all these pods from ending, or none; returns whether it was in time."""
        if any(pod.uid in self._begun for pod in pods):
            return False
        for pod in pods:
            self._begun.add(pod.uid)
            if pod.uid in self._ending:
                self._ending[pod.uid].cancel()
        return True

    @asynccontextmanager
    async def written(self) -> AsyncIterator[None]:
        self.api = Api(str(self.cluster.kubeconfig))
        await self.api.open()
        listed = await self.api.get("/api/v1/pods")
        for item in listed["items"]:
            self.pods[item["metadata"]["uid"]] = pod_of(item)
        following = asyncio.create_task(self._follow(listed["metadata"]["resourceVersion"]))
        try:
            yield
            assert not following.done(), following.exception()
        finally:
            for task in (following, *self._ending.values()):
                task.cancel()
            await asyncio.gather(following, *self._ending.values(), return_exceptions=True)
            await self.api.close()

    async def _follow(self, version: str) -> None:
        while True:
            async for line in self.api.lines("/api/v1/pods", 600, watch="true", resourceVersion=version):
                event = json.loads(line)
                assert event["type"] != "ERROR", event  # no event may be missing here
                version = event["object"]["metadata"]["resourceVersion"]
                self._see(pod_of(event["object"]), there=event["type"] != "DELETED")

    def _see(self, pod: Pod, *, there: bool) -> None:
        if there:
            self.pods[pod.uid] = pod
        else:
            self.pods.pop(pod.uid, None)
        if pod.worker is None:
            return
        if there and pod.holds and pod.node not in self.gone:
            self._check(pod, pod.worker)
        self.seen.add(pod.worker)
        if there and pod.phase == "Running" and not pod.deleting and pod.uid not in self._ending:
            self._ending[pod.uid] = asyncio.create_task(self._end(pod, pod.worker))

    def _check(self, pod: Pod, worker: Worker) -> None:
        """The invariants at every moment."""
        ours = [each for each in self.pods.values() if each.worker and each.holds and each.node not in self.gone]
        self.most = max(self.most, sum(each.gpus for each in ours))
        on_node = [each for each in ours if each.node == pod.node]
        if sum(each.gpus for each in on_node) > self.gpus:
            self.wrong.append(f"GPUs of {pod.node} were given twice: {sorted(each.name for each in on_node)}")
        beside = [each for each in ours if each.worker and each.worker.job == worker.job and each is not pod]
        for each in beside:
            assert each.worker is not None
            if each.worker.attempt != worker.attempt or each.worker.rank == worker.rank:
                self.wrong.append(f"{pod.name} runs beside {each.name}")

    async def _end(self, pod: Pod, worker: Worker) -> None:
        """The worker's container ends, with the agent's termination message."""
        await asyncio.sleep(self.chance.expovariate(1.0))
        if pod.uid in self._begun:
            return
        self._begun.add(pod.uid)
        code, now = self.codes.get(worker.job, 0), time.time()
        said = {
            "agent": pod.uid,
            "state": "exited",
            "at": now,
            "started": now - 0.1,
            "exit_code": code,
            "stopped": False,
        }
        terminated = {"exitCode": code, "reason": "Completed", "message": json.dumps(said)}
        container = {"name": "worker", "image": "any", "imageID": "", "ready": False, "restartCount": 0}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{**container, "state": {"terminated": terminated}}],
        }
        with suppress(ApiError):  # it has been deleted
            body = {"metadata": {"uid": pod.uid}, "status": status}
            answer = await self.api.call("PATCH", f"{pod.path}/status", body, content=MERGE_PATCH)
            (self.ended if "deletionTimestamp" not in answer["metadata"] else self.unheard).add(worker)
