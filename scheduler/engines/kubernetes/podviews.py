"""What the scheduler keeps of a pod that it has read: who uses how much of which node, and how our own pods stand.

Pure. Of every pod of the cluster as little as possible is kept: there may be tens of thousands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.kubernetes.names import ATTEMPT, INSTANCE, JOB, RANK, SESSION
from scheduler.engines.kubernetes.podstates import PodStatus, pod_status
from scheduler.engines.kubernetes.quantities import count, mib, milli
from scheduler.model import JobId, MiB, Milli, SessionId

Object = Mapping[str, Any]
"""An object of the API, as it is in JSON."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a pod asks of its node."""

    gpus: int = 0
    cpus: Milli = 0
    memory: MiB = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.gpus + other.gpus, self.cpus + other.cpus, self.memory + other.memory)


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. `ended`: its containers will not run again, and it uses nothing of its node.

    `worker` and `status` are there for pods of workers only, `session` for those of sessions' servers. `deleting`:
    somebody is ending it.
    """

    name: str
    namespace: str
    uid: str
    node: str | None
    amounts: Amounts
    ended: bool
    worker: Worker | None = None
    status: PodStatus | None = None
    session: SessionId | None = None
    deleting: bool = False


def pod_view(pod: Object, instance: str, gpu_resource: str) -> PodView:
    """What is kept of a pod; `instance` says which pods are ours."""
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    labels = metadata.get("labels") or {}
    worker = _worker(labels, instance)
    session = labels.get(SESSION) if labels.get(INSTANCE) == instance else None
    return PodView(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        node=spec.get("nodeName") or None,
        amounts=amounts(spec, gpu_resource),
        ended=status.get("phase") in ("Succeeded", "Failed"),
        worker=worker,
        status=None if worker is None else pod_status(pod),
        session=None if session is None else SessionId(session),
        deleting="deletionTimestamp" in metadata,
    )


def _worker(labels: Mapping[str, str], instance: str) -> Worker | None:
    try:
        if labels.get(INSTANCE) == instance:
            return Worker(JobId(labels[JOB]), int(labels[ATTEMPT]), int(labels[RANK]))
    except (KeyError, ValueError):
        pass  # somebody has written our label on a pod of their own
    return None


def amounts(spec: Object, gpu_resource: str) -> Amounts:
    """What a pod asks for: its containers and sidecars together, or more where an init container asks for more.

    See "How Pods with resource requests are scheduled" in Kubernetes' documentation.
    """
    running = _sum(_requests(container, gpu_resource) for container in spec.get("containers") or ())
    most, sidecars = Amounts(), Amounts()
    for container in spec.get("initContainers") or ():
        own = _requests(container, gpu_resource)
        if container.get("restartPolicy") == "Always":
            sidecars += own
            most = _most(most, sidecars)
        else:
            most = _most(most, sidecars + own)
    overhead = _amounts(spec.get("overhead") or {}, gpu_resource)
    return _most(running + sidecars, most) + overhead


def _requests(container: Object, gpu_resource: str) -> Amounts:
    """A limit stands for a request that is not there."""
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})}, gpu_resource)


def _amounts(resources: Mapping[str, str], gpu_resource: str) -> Amounts:
    return Amounts(
        count(resources.get(gpu_resource, 0)),
        milli(resources.get("cpu", 0), up=True),
        mib(resources.get("memory", 0), up=True),
    )


def _sum(each: Iterable[Amounts] | Iterator[Amounts]) -> Amounts:
    return sum(each, start=Amounts())


def _most(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(max(one.gpus, other.gpus), max(one.cpus, other.cpus), max(one.memory, other.memory))
