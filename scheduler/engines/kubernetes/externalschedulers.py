"""The other schedulers of a cluster that can place jobs: what each expects of pods and their groups.

Pure. Sources: Kueue's "Run Plain Pods" and the API reference of its `Workload`; KAI's `pkg/common/constants`, its pod
grouper and the API of its `PodGroup`. Both place pods only that have no owners among other pods: they would group the
pods of a gang under the first one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from scheduler.engines.kubernetes.names import KAI
from scheduler.engines.kubernetes.podviews import Object
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.model import ProjectName

Manifest = dict[str, Any]


class ExternalScheduler(ABC):
    """A scheduler that placement is delegated to. `queues` names the queue of a project where it is not the project's
    name.

    `name` is for people. Each gang has an object of `plural` in the API group `group`, in `version` where that is not
    the one that the cluster prefers; it is `read` where the pods do not say why they wait. `scheduler` places the pods.
    """

    name: ClassVar[str]
    group: ClassVar[str]
    version: ClassVar[str] = ""
    plural: ClassVar[str]
    read: ClassVar[bool] = False
    scheduler: ClassVar[str]

    def __init__(self, queues: Mapping[str, str]) -> None:
        self._queues = queues

    def queue(self, project: ProjectName) -> str:
        return self._queues.get(project, project)

    @abstractmethod
    def mark(self, pod: Manifest, gang: str, project: ProjectName, size: int) -> Manifest:
        """The pod, for the scheduler to place it as one of `size` of this gang."""

    @abstractmethod
    def gang(self, gang: str, project: ProjectName, size: int, metadata: Manifest) -> Manifest | None:
        """The object of a gang; `None` where the scheduler makes it."""

    def why(self, gang: Object) -> str:
        """Why the object of a gang waits; empty if it does not."""
        return ""


class Kueue(ExternalScheduler):
    """Kueue admits a group of pods to the local queue of their namespace, and removes the gate that it has set on each
    pod; the default scheduler places them then.

    The group is not retriable: without replacements for its pods, it is finished when they have ended.
    """

    name = "Kueue"
    group = "kueue.x-k8s.io"
    plural = "workloads"
    read = True
    scheduler = "default-scheduler"

    def mark(self, pod: Manifest, gang: str, project: ProjectName, size: int) -> Manifest:
        labels = {"kueue.x-k8s.io/queue-name": self.queue(project), "kueue.x-k8s.io/pod-group-name": gang}
        annotations = {
            "kueue.x-k8s.io/pod-group-total-count": str(size),
            "kueue.x-k8s.io/retriable-in-group": "false",
        }
        return _marked(pod, self.scheduler, labels, annotations)

    def gang(self, gang: str, project: ProjectName, size: int, metadata: Manifest) -> Manifest | None:
        return None

    def why(self, gang: Object) -> str:
        conditions = {each["type"]: each for each in gang.get("status", {}).get("conditions") or ()}
        if _holds(conditions.get("Admitted")):
            return ""
        for kind in ("Evicted", "QuotaReserved"):
            condition = conditions.get(kind, {})
            if _holds(condition) == (kind == "Evicted") and condition.get("message"):
                return str(condition["message"])
        checks = gang.get("status", {}).get("admissionChecks") or ()
        waiting = [each for each in checks if each.get("state") != "Ready"]
        return next((f"{each['name']}: {each.get('message') or each['state']}" for each in waiting), "")


class Kai(ExternalScheduler):
    """The KAI scheduler places the pods of a `PodGroup` in a queue of the cluster, all or none."""

    name = "KAI"
    group = "scheduling.run.ai"
    version = "v2alpha2"
    plural = "podgroups"
    scheduler = KAI

    def mark(self, pod: Manifest, gang: str, project: ProjectName, size: int) -> Manifest:
        labels = {"kai.scheduler/queue": self.queue(project)}
        return _marked(pod, self.scheduler, labels, {"pod-group-name": gang})

    def gang(self, gang: str, project: ProjectName, size: int, metadata: Manifest) -> Manifest | None:
        queue = self.queue(project)
        labels = {**metadata["labels"], "kai.scheduler/queue": queue}
        return {
            "apiVersion": f"{self.group}/{self.version}",
            "kind": "PodGroup",
            "metadata": {**metadata, "labels": labels},
            # Marked pods are those that a cluster autoscaler adds nodes for.
            "spec": {"queue": queue, "minMember": size, "markUnschedulable": True},
        }


def external_scheduler(settings: Kubernetes) -> ExternalScheduler | None:
    """The scheduler that places jobs, where that is not this one."""
    kinds: Mapping[str, type[ExternalScheduler]] = {"kueue": Kueue, "kai": Kai}
    kind = kinds.get(settings.placement)
    return None if kind is None else kind(settings.queues)


def _marked(pod: Manifest, scheduler: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Manifest:
    metadata = pod["metadata"]
    return {
        **pod,
        "metadata": {
            **metadata,
            "labels": {**metadata["labels"], **labels},
            "annotations": {**metadata["annotations"], **annotations},
        },
        "spec": {**pod["spec"], "schedulerName": scheduler},
    }


def _holds(condition: Object | None) -> bool:
    return condition is not None and condition.get("status") == "True"
