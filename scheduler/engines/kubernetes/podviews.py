"""The scheduler's view of a pod: its use of its node, and the state of our own pods.

Pure. Views are small: a cluster may have tens of thousands of pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.kubernetes.names import ATTEMPT, INSTANCE, JOB, PLACEHOLDER, RANK, SESSION
from scheduler.engines.kubernetes.podstates import ENDED, PodStatus, pod_status
from scheduler.engines.kubernetes.quantities import count, mib, milli
from scheduler.model import JobId, MiB, Milli, SessionId

Object = Mapping[str, Any]
"""An API object as JSON."""


@dataclass(frozen=True, slots=True)
class GpuResources:
    """The GPU resources of a cluster: `whole` GPUs, and parts, each with their number per GPU. `memory_limits`: the
    memory of parts of time-sliced GPUs is limited."""

    whole: str
    parts: Mapping[str, int] = field(default_factory=dict)
    memory_limits: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """The resource of which a pod with part of a GPU requests one, and how much of the GPU's memory it may use, where
    its pod has to say that."""

    resource: str = ""
    memory_limit: MiB | None = None

    @property
    def variables(self) -> Mapping[str, str]:
        """What tells the NVIDIA Container Toolkit to limit the memory, in MiB."""
        if self.memory_limit is None:
            return {}
        return dict.fromkeys(("NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"), str(self.memory_limit))


WHOLE = Part()
"""A pod with whole GPUs."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """The requests of a pod; `parts` are parts of GPUs."""

    gpus: int = 0
    cpus: Milli = 0
    memory: MiB = 0
    parts: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.gpus + other.gpus, self.cpus + other.cpus, self.memory + other.memory, self.parts + other.parts
        )


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. `ended`: its containers will not run again, and it uses no resources of its node.

    `worker` and `status` are set for workers' pods only, `session` for those of sessions. `deleting`: the pod is being
    deleted. `placeholder` is set for placeholders: the sentence in them that says why their job waits.
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
    placeholder: str | None = None


def pod_view(pod: Object, instance: str, namespace: str, offers: GpuResources) -> PodView:
    """The view of a pod. `instance` identifies our pods; those of workers are in `namespace`, since others may set our
    labels on pods of their own namespaces."""
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    labels = metadata.get("labels") or {}
    worker = _worker(labels, instance) if metadata["namespace"] == namespace else None
    ours = labels.get(INSTANCE) == instance
    session = labels.get(SESSION) if ours else None
    placeholder = ours and PLACEHOLDER in labels and metadata["namespace"] == namespace
    return PodView(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        node=spec.get("nodeName") or None,
        amounts=amounts(spec, offers),
        ended=status.get("phase") in ENDED,
        worker=worker,
        status=None if worker is None else pod_status(pod),
        session=None if session is None else SessionId(session),
        deleting="deletionTimestamp" in metadata,
        placeholder=_unschedulable(status) if placeholder else None,
    )


def _unschedulable(status: Object) -> str:
    """Why a pod is marked as unschedulable; empty if it is not."""
    found = (each for each in status.get("conditions") or () if each.get("reason") == "Unschedulable")
    return next((str(each.get("message", "")) for each in found), "")


def _worker(labels: Mapping[str, str], instance: str) -> Worker | None:
    try:
        if labels.get(INSTANCE) == instance:
            return Worker(JobId(labels[JOB]), int(labels[ATTEMPT]), int(labels[RANK]))
    except (KeyError, ValueError):
        pass  # a foreign pod with our label
    return None


def amounts(spec: Object, offers: GpuResources) -> Amounts:
    """The requests of a pod: the sum over its containers and sidecars, or that of an init container if it is larger.

    See "How Pods with resource requests are scheduled" in Kubernetes' documentation.
    """
    running = _sum(_requests(container, offers) for container in spec.get("containers") or ())
    most, sidecars = Amounts(), Amounts()
    for container in spec.get("initContainers") or ():
        own = _requests(container, offers)
        if container.get("restartPolicy") == "Always":
            sidecars += own
            most = _most(most, sidecars)
        else:
            most = _most(most, sidecars + own)
    overhead = _amounts(spec.get("overhead") or {}, offers)
    return _most(running + sidecars, most) + overhead


def _requests(container: Object, offers: GpuResources) -> Amounts:
    """The requests of a container; a limit is the default for a missing request."""
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})}, offers)


def _amounts(resources: Mapping[str, str], offers: GpuResources) -> Amounts:
    return Amounts(
        count(resources.get(offers.whole, 0)),
        milli(resources.get("cpu", 0), up=True),
        mib(resources.get("memory", 0), up=True),
        sum(count(resources[part]) for part in offers.parts.keys() & resources.keys()),
    )


def _sum(each: Iterable[Amounts] | Iterator[Amounts]) -> Amounts:
    return sum(each, start=Amounts())


def _most(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(
        max(one.gpus, other.gpus),
        max(one.cpus, other.cpus),
        max(one.memory, other.memory),
        max(one.parts, other.parts),
    )
