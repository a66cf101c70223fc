"""The affinity of a pod that others find a node for: another scheduler, or what adds nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.engines.base import UnplacedAttempt
from scheduler.engines.kubernetes.inventory import ClusterInventory
from scheduler.engines.kubernetes.names import ATTEMPT, INSTANCE, JOB, NODE_POOL
from scheduler.engines.kubernetes.nodeviews import PRODUCT
from scheduler.engines.kubernetes.settings import Kubernetes

Manifest = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Constraints:
    """The node has one of the labels of `node_pools`, or none if it may be `unlabelled`; its GPUs are of `products`
    (`None`: any), and all pods of the gang share the domain of the level `require`. `avoids` are used last."""

    node_pools: Sequence[str]
    unlabelled: bool
    products: Sequence[str] | None = None
    require: str | None = None
    avoids: Sequence[str] = ()

    @classmethod
    def of(cls, wanted: UnplacedAttempt, inventory: ClusterInventory, *, gpus: bool) -> Constraints:
        """Those of a gang. `gpus`: a worker has some; a node without GPUs and label is in no node pool."""
        types = wanted.gpu_types
        return cls(
            node_pools=wanted.node_pools,
            unlabelled=gpus and inventory.unlabelled in wanted.node_pools,
            # Of a type that no node has, no product is known: its name matches nothing, and the pod says so.
            products=None if types is None else inventory.products(types) or list(types),
            require=wanted.require,
            avoids=wanted.avoids,
        )


def with_affinity(pod: Manifest, constraints: Constraints, settings: Kubernetes) -> Manifest:
    """The pod with the affinity that it has and with these constraints."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    found = {**affinity, "nodeAffinity": _node_affinity(affinity.get("nodeAffinity") or {}, constraints)}
    if constraints.require is not None:
        found["podAffinity"] = _together(affinity.get("podAffinity") or {}, pod, constraints.require, settings)
    return {**pod, "spec": {**spec, "affinity": found}}


def _node_affinity(own: Mapping[str, Any], constraints: Constraints) -> Manifest:
    types = [] if constraints.products is None else [_in(PRODUCT, constraints.products)]
    terms = [[_in(NODE_POOL, constraints.node_pools), *types]]
    if constraints.unlabelled:
        terms.append([{"key": NODE_POOL, "operator": "DoesNotExist"}, *types])
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    before: Sequence[Mapping[str, Any]] = (own.get(required) or {}).get("nodeSelectorTerms") or [{}]
    both = [
        {**each, "matchExpressions": [*(each.get("matchExpressions") or ()), *term]}
        for each in before
        for term in terms
    ]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    others = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in constraints.avoids]
    elsewhere = [{"weight": 100, "preference": {"matchFields": [other]}} for other in others]
    preferences = [*(own.get(preferred) or ()), *elsewhere]
    return {required: {"nodeSelectorTerms": both}, **({preferred: preferences} if preferences else {})}


def _together(own: Mapping[str, Any], pod: Manifest, level: str, settings: Kubernetes) -> Manifest:
    key = settings.topology_labels.get(level, HOSTNAME)
    labels = pod["metadata"]["labels"]
    gang = {name: labels[name] for name in (INSTANCE, JOB, ATTEMPT) if name in labels}  # a placeholder has no attempt
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"labelSelector": {"matchLabels": gang}, "topologyKey": key}
    return {**own, required: [*(own.get(required) or ()), term]}


def _in(key: str, values: Sequence[str]) -> Manifest:
    return {"key": key, "operator": "In", "values": sorted(values)}
