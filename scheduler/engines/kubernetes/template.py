"""The administrator's pod template: checked, and merged as by `kubectl patch` (strategic merge).

Objects are merged key by key, `null` removes a field, and lists whose items have a merge key are merged by it; other
lists are replaced. See "Strategic merge patch" in Kubernetes' documentation; the keys are those of its API reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.errors import Invalid

KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
}

OURS = {
    "schedulerName": "the scheduler binds its pods itself",
    "nodeName": "the scheduler chooses the node",
    "restartPolicy": "the scheduler starts a worker again itself",
    "hostname": "the workers of a gang find each other by it",
    "subdomain": "the workers of a gang find each other by it",
    "terminationGracePeriodSeconds": "it follows from the job's grace period",
    "tolerations": "set c.Kubernetes.tolerations, which also select the nodes",
    "activeDeadlineSeconds": "set the job's maximum run time instead",
}
"""Fields of a pod's spec that a template cannot set, and why."""


def merge(base: Any, over: Any, key: str | None = None) -> Any:
    """`base` patched with `over`."""
    if isinstance(over, Mapping):
        merged = dict(base) if isinstance(base, Mapping) else {}
        for name, value in over.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = merge(merged.get(name), value, KEYS.get(name))
        return merged
    if key is not None and isinstance(over, list):
        found = {item[key]: item for item in base or ()}
        for item in over:
            found[item[key]] = merge(found.get(item[key]), item)
        return list(found.values())
    return over


def check_template(template: Mapping[str, Any]) -> None:
    """Raises `Invalid` for an invalid pod template, or one that sets the scheduler's own fields."""
    _only(template, ("metadata", "spec"), "pod_template")
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    _object(metadata, "metadata")
    _object(spec, "spec")
    _only(metadata, ("labels", "annotations"), "pod_template.metadata")
    for name, why in OURS.items():
        if name in spec:
            raise Invalid(f"pod_template.spec.{name} cannot be set: {why}.", field="pod_template")
    for name, key in KEYS.items():
        if name in spec:
            _list(spec[name], key, f"spec.{name}")
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        for name in KEYS.keys() & container.keys():
            _list(container[name], KEYS[name], f"spec.containers.{name}")
    for container in spec.get("containers", ()):
        if container["name"] == "worker" and {"command", "args", "workingDir"} & container.keys():
            raise Invalid(
                "pod_template cannot set the command of the container `worker`: the job sets it.", field="pod_template"
            )


def _only(found: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for name in found:
        if name not in known:
            raise Invalid(f"{place} has no field {name!r}; it has {' and '.join(known)}.", field="pod_template")


def _object(found: Any, place: str) -> None:
    if not isinstance(found, Mapping):
        raise Invalid(f"pod_template.{place} must be an object.", field="pod_template")


def _list(found: Any, key: str, place: str) -> None:
    if not isinstance(found, list) or not all(isinstance(item, Mapping) and key in item for item in found):
        raise Invalid(f"pod_template.{place} must be a list of objects that each have {key!r}.", field="pod_template")
