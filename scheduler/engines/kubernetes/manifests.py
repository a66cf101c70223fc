"""The objects that an attempt is made of: plain functions from what is known to what the API takes.

```
ConfigMap  runai-agent-<hash>          the agent, one file, the same for all
Pod        runai-<job>-<attempt>-<rank>
Secret     runai-<job>-<attempt>       the agents' tokens; belongs to the pods
Service    runai-<job>-<attempt>       headless, for a gang's names; belongs to the pods
```

What must hold: a pod's own fields are over the template's, and no other pod than its own reads a worker's token. A pod
keeps to Kubernetes' "restricted" standard unless the template says otherwise.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.kubernetes.names import MANAGED_BY, RANK, SCHEDULER, attempt_labels, attempt_name, pod_name
from scheduler.engines.kubernetes.podstates import CONTAINER
from scheduler.engines.kubernetes.podviews import PodView
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.engines.kubernetes.template import merge
from scheduler.model import ONE, Container, JobId, Shape

Manifest = dict[str, Any]

AGENT = "agent.py"
FOLDER = "/runai"
"""Where the agent is in a container, and its work beside it."""

END = f"{FOLDER}/end"
"""The container's termination message: how its worker ended."""

LONGEST_GRACE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PodPlan:
    """A worker's pod, as it is to be: on which node, with how many GPUs and what beside them."""

    worker: Worker
    node: str
    gpus: int
    shape: Shape | None = None


def agent_config_map(agent: str, settings: Kubernetes) -> Manifest:
    """The agent in a ConfigMap that never changes: another agent has another name."""
    digest = hashlib.sha256(agent.encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"runai-agent-{digest}", "namespace": settings.namespace, "labels": dict(MANAGED_BY)},
        "immutable": True,
        "data": {AGENT: agent},
    }


def pod(
    plan: PodPlan,
    size: int,
    grace: float,
    about: Mapping[str, str],
    container: Container,
    config_map: str,
    settings: Kubernetes,
) -> Manifest:
    """A worker's pod, not yet bound. `about` is for people who read it; `size` is that of the gang; `container` is what
    the job has chosen, or its notebook is made of."""
    worker = plan.worker
    name = attempt_name(worker.job, worker.attempt)
    merged = merge(_defaults(settings), _chosen(container))
    merged = merge(merge(merged, settings.pod_template), _own(plan, grace, config_map, settings))
    if size > 1:
        merged["spec"] |= {"hostname": hostname(worker.rank), "subdomain": name}
    metadata = merged.get("metadata", {})
    labels = {**metadata.get("labels", {}), **attempt_labels(settings.instance, worker.job, worker.attempt)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(worker),
            "namespace": settings.namespace,
            "labels": {**labels, RANK: str(worker.rank)},
            "annotations": {**metadata.get("annotations", {}), **about},
        },
        "spec": merged["spec"],
    }


def _defaults(settings: Kubernetes) -> Manifest:
    """What the template may change."""
    return {
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "runAsGroup": 1000,
                "fsGroup": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": CONTAINER,
                    "image": settings.image,
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
            "volumes": [{"name": "runai-home", "emptyDir": {}}],
        }
    }


def _chosen(container: Container) -> Manifest:
    """What comes with the job, and the template may change."""
    image = {} if container.image is None else {"image": container.image}
    worker = {"name": CONTAINER, **image, "volumeMounts": list(container.mounts)}
    return {"spec": {"containers": [worker], "volumes": list(container.volumes)}}


def _own(plan: PodPlan, grace: float, config_map: str, settings: Kubernetes) -> Manifest:
    """What it may not."""
    worker = plan.worker
    token = {"name": attempt_name(worker.job, worker.attempt), "key": str(worker.rank)}
    return {
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": termination_grace(grace, settings),
            "tolerations": list(settings.tolerations),
            "containers": [
                {
                    "name": CONTAINER,
                    "command": ["python3", "-I", "-S", f"{FOLDER}/agent/{AGENT}"],
                    "workingDir": f"{FOLDER}/home",
                    "env": [
                        {"name": "RUNAI_AGENT_URL", "value": settings.url},
                        {"name": "RUNAI_AGENT_END", "value": END},
                        {"name": "RUNAI_AGENT_TOKEN", "valueFrom": {"secretKeyRef": token}},
                    ],
                    "resources": _resources(plan, settings),
                    "terminationMessagePath": END,
                    "volumeMounts": [
                        {"name": "runai-agent", "mountPath": f"{FOLDER}/agent", "readOnly": True},
                        {"name": "runai-home", "mountPath": f"{FOLDER}/home"},
                    ],
                }
            ],
            "volumes": [
                {"name": "runai-agent", "configMap": {"name": config_map}},
                {"name": "runai-home"},
            ],
        }
    }


def _resources(plan: PodPlan, settings: Kubernetes) -> Manifest:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if plan.gpus:
        limits[settings.gpu_resource] = str(plan.gpus)
    if plan.shape is not None and plan.shape.cpus:
        requests["cpu"] = f"{plan.shape.cpus * 1000 // ONE}m"
    if plan.shape is not None and plan.shape.memory:
        requests["memory"] = limits["memory"] = f"{plan.shape.memory}Mi"
    return {"requests": requests, "limits": limits}


def hostname(rank: int) -> str:
    return f"worker-{rank}"


def address(worker: Worker, namespace: str) -> str:
    """The name by which the other workers of a gang reach one."""
    return f"{hostname(worker.rank)}.{attempt_name(worker.job, worker.attempt)}.{namespace}.svc"


def termination_grace(grace: float, settings: Kubernetes) -> int:
    """The whole seconds that a pod has to end, of which a worker has `grace`."""
    return min(math.ceil(grace) + settings.upload_seconds, LONGEST_GRACE)


def secret(
    job: JobId, attempt: int, tokens: Sequence[str], owners: Sequence[Manifest], settings: Kubernetes
) -> Manifest:
    """The tokens of an attempt's agents, by rank."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _belongs(job, attempt, owners, settings),
        "immutable": True,
        "type": "Opaque",
        "stringData": {str(rank): token for rank, token in enumerate(tokens)},
    }


def service(job: JobId, attempt: int, owners: Sequence[Manifest], settings: Kubernetes) -> Manifest:
    """Names for the pods of a gang, also before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _belongs(job, attempt, owners, settings),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": dict(attempt_labels(settings.instance, job, attempt)),
        },
    }


def _belongs(job: JobId, attempt: int, owners: Sequence[Manifest], settings: Kubernetes) -> Manifest:
    """Metadata of what goes with the last of its pods."""
    return {
        "name": attempt_name(job, attempt),
        "namespace": settings.namespace,
        "labels": dict(attempt_labels(settings.instance, job, attempt)),
        "ownerReferences": list(owners),
    }


def owner(name: str, uid: str) -> Manifest:
    """A pod as the owner of something."""
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}


def binding(namespace: str, name: str, uid: str, node: str) -> Manifest:
    """A pod, and no later one of its name, onto a node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def event(pod: PodView, reason: str, message: str, at: str, *, warning: bool = False) -> Manifest:
    """What the events of a pod tell people; `at` is a time as the API writes it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{pod.name}.", "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
        },
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": message,
        "source": {"component": SCHEDULER},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def eviction(name: str, grace: int, settings: Kubernetes) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": settings.namespace},
        "deleteOptions": {"gracePeriodSeconds": grace},
    }
