"""The API objects of an attempt, built by pure functions.

```
ConfigMap  runai-agent-<hash>          the agent, one file, the same for all
Pod        runai-<job>-<attempt>-0     the first worker's, which everything below belongs to
Pod        runai-<job>-<attempt>-<rank>
Secret     runai-<job>-<attempt>       the agents' tokens
Service    runai-<job>-<attempt>       headless, for a gang's names
```

What must hold: the scheduler's fields take precedence over the template's, and only a worker's own pod can read its
token. A pod meets Kubernetes' "restricted" standard unless the template says otherwise.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.kubernetes.names import MANAGED_BY, RANK, SCHEDULER, attempt_labels, attempt_name, pod_name
from scheduler.engines.kubernetes.podstates import CONTAINER
from scheduler.engines.kubernetes.podviews import WHOLE, Part, PodView
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.engines.kubernetes.template import merge
from scheduler.model import ONE, Container, JobId, Shape

Manifest = dict[str, Any]

AGENT = "agent.pyz"
FOLDER = "/runai"
"""Paths in a container: the agent and its working folder."""

END = f"{FOLDER}/end"
"""The container's termination message: how its worker ended."""

LONGEST_GRACE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PodPlan:
    """The plan of a worker's pod: its node, GPUs or `part` of one, and other resources."""

    worker: Worker
    node: str
    gpus: int
    shape: Shape | None = None
    part: Part = WHOLE


def agent_config_map(agent: bytes, settings: Kubernetes) -> Manifest:
    """The agent in an immutable ConfigMap, named by the agent's hash."""
    digest = hashlib.sha256(agent).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"runai-agent-{digest}", "namespace": settings.namespace, "labels": dict(MANAGED_BY)},
        "immutable": True,
        "binaryData": {AGENT: base64.b64encode(agent).decode()},
    }


def pod(
    plan: PodPlan,
    size: int,
    grace: float,
    about: Mapping[str, str],
    container: Container,
    config_map: str,
    settings: Kubernetes,
    owners: Sequence[Manifest] = (),
) -> Manifest:
    """A worker's pod, unbound. `about` describes it to people; `size` is that of the gang; `container` comes from the
    job or from its notebook; `owners` are its owner references."""
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
            "ownerReferences": list(owners),
        },
        "spec": merged["spec"],
    }


def _defaults(settings: Kubernetes) -> Manifest:
    """The fields that the template may change."""
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
    """The fields that come from the job and that the template may change."""
    image = {} if container.image is None else {"image": container.image}
    worker = {"name": CONTAINER, **image, "volumeMounts": list(container.mounts)}
    return {"spec": {"containers": [worker], "volumes": list(container.volumes)}}


def _own(plan: PodPlan, grace: float, config_map: str, settings: Kubernetes) -> Manifest:
    """The fields that the template may not change."""
    worker = plan.worker
    token = {"name": attempt_name(worker.job, worker.attempt), "key": str(worker.rank)}
    kept = _checkpoints(worker, settings)
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
                        *({"name": name, "value": value} for name, value in plan.part.variables.items()),
                        *([{"name": "RUNAI_AGENT_KEEPS", "value": "checkpoint"}] if kept else []),
                    ],
                    "resources": _resources(plan, settings),
                    "terminationMessagePath": END,
                    "volumeMounts": [
                        {"name": "runai-agent", "mountPath": f"{FOLDER}/agent", "readOnly": True},
                        {"name": "runai-home", "mountPath": f"{FOLDER}/home"},
                        *kept,
                    ],
                }
            ],
            "volumes": [
                {"name": "runai-agent", "configMap": {"name": config_map}},
                {"name": "runai-home"},
                *([{"name": "runai-checkpoints", **settings.checkpoint_volume}] if kept else []),
            ],
        }
    }


def _checkpoints(worker: Worker, settings: Kubernetes) -> list[Manifest]:
    """The mount of the job's own folder on the volume for checkpoints, where there is one."""
    if not settings.checkpoint_volume:
        return []
    return [{"name": "runai-checkpoints", "mountPath": f"{FOLDER}/home/checkpoint", "subPath": worker.job}]


def _resources(plan: PodPlan, settings: Kubernetes) -> Manifest:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if plan.part.resource:
        limits[plan.part.resource] = "1"
    elif plan.gpus:
        limits[settings.gpu_resource] = str(plan.gpus)
    if plan.shape is not None and plan.shape.cpus:
        requests["cpu"] = f"{plan.shape.cpus * 1000 // ONE}m"
    if plan.shape is not None and plan.shape.memory:
        requests["memory"] = limits["memory"] = f"{plan.shape.memory}Mi"
    return {"requests": requests, "limits": limits}


def hostname(rank: int) -> str:
    return f"worker-{rank}"


def address(worker: Worker, namespace: str) -> str:
    """The DNS name of a worker for the others of its gang."""
    return f"{hostname(worker.rank)}.{attempt_name(worker.job, worker.attempt)}.{namespace}.svc"


def termination_grace(grace: float, settings: Kubernetes) -> int:
    """The termination grace period of a pod in whole seconds, of which its worker gets `grace`."""
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
    """The Service that gives the pods of a gang their DNS names, even before they are ready."""
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
    """Metadata of an object that is owned by the attempt's first pod."""
    return {
        "name": attempt_name(job, attempt),
        "namespace": settings.namespace,
        "labels": dict(attempt_labels(settings.instance, job, attempt)),
        "ownerReferences": list(owners),
    }


def owners_of(container: Container, settings: Kubernetes) -> list[Manifest]:
    """The owners of a job's first pod; none from another namespace, which Kubernetes does not allow."""
    owner = container.owner
    if owner is None or owner["namespace"] != settings.namespace:
        return []
    return [{name: owner[name] for name in ("apiVersion", "kind", "name", "uid")}]


def owner(name: str, uid: str) -> Manifest:
    """The owner reference to a pod."""
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}


def binding(namespace: str, name: str, uid: str, node: str) -> Manifest:
    """The binding of a pod to a node; `uid` excludes a later pod of the same name."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def event(pod: PodView, reason: str, message: str, at: str, *, warning: bool = False) -> Manifest:
    """An event of a pod; `at` is a time in the API's format."""
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
