"""From the objects of a cluster to the nodes of a pool and what others use of them: pure, so without a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.kubernetes.names import INSTANCE, NODE_POOL, RANK, attempt_labels
from scheduler.engines.kubernetes.nodeviews import TOPOLOGY, node_of, node_pool_of, node_view, takes
from scheduler.engines.kubernetes.podviews import Amounts, amounts, pod_view
from scheduler.engines.kubernetes.quantities import count, mib, milli, quantity
from scheduler.model import Environment, ForeignUse, JobId, NodePool, Pool

GPU = "nvidia.com/gpu"
TOLERATIONS = ({"key": GPU, "operator": "Exists"},)


def node(
    labels: dict[str, str] | None = None, *, gpus: int = 8, taints: Any = (), ready: str = "True"
) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "labels": labels or {}},
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": {GPU: "9", "cpu": "100", "memory": "1Ti"},
            "allocatable": {GPU: str(gpus), "cpu": "95500m", "memory": "1000Gi"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def view(found: dict[str, Any]) -> Any:
    return node_view(found, GPU, TOPOLOGY, TOLERATIONS)


# -- quantities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("500m", 0.5), ("1.5", 1.5), ("2k", 2000), ("1Ki", 1024), ("1e3", 1000), ("2E", 2e18), ("1Gi", 2**30)],
)
def test_quantities_are_those_of_kubernetes(text: str, number: float) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["", "many", "1Q", "Gi"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        quantity(text)


@given(st.integers(0, 10**15))
def test_what_a_node_has_is_rounded_down_and_what_a_pod_asks_for_up(amount: int) -> None:
    assert mib(amount) * 2**20 <= amount <= mib(amount, up=True) * 2**20
    assert milli(f"{amount}u") * 1000 <= amount <= milli(f"{amount}u", up=True) * 1000
    assert count(amount) == amount


# -- nodes --------------------------------------------------------------------------------------------------


def test_a_node_has_what_can_be_allocated_and_is_called_what_its_labels_say() -> None:
    found = node(
        {
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
            "nvidia.com/gpu.memory": "81920",
            "topology.kubernetes.io/rack": "r7",
            "topology.kubernetes.io/zone": "z1",
            "unrelated": "x",
        },
    )
    made = node_of(view(found), "train", Amounts())
    assert (made.name, made.gpus, made.gpu_type, made.gpu_memory) == ("n1", 8, "A100", 81920)
    assert (made.cpus, made.memory, made.schedulable) == (95500, 1000 * 1024, True)
    assert made.labels == {"rack": "r7", "zone": "z1"}
    assert made.devices == ()


@pytest.mark.parametrize(
    ("taint", "open_"),
    [
        ({"key": GPU, "value": "present", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "others", "effect": "NoSchedule"}, False),
        ({"key": "dedicated", "effect": "NoExecute"}, False),
        ({"key": "dedicated", "effect": "PreferNoSchedule"}, True),
        ({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}, False),
    ],
)
def test_a_node_with_a_taint_that_pods_do_not_tolerate_gets_none(taint: dict[str, str], open_: bool) -> None:
    assert view(node(taints=[taint])).open is open_


@pytest.mark.parametrize(
    "toleration",
    [{"operator": "Exists"}, {"key": "a", "value": "1"}, {"key": "a", "value": "1", "effect": "NoSchedule"}],
)
def test_a_toleration_is_for_all_taints_or_for_its_own(toleration: dict[str, str]) -> None:
    assert takes([{"key": "a", "value": "1", "effect": "NoSchedule"}], [toleration])
    assert takes([{"key": "a", "value": "2", "effect": "NoSchedule"}], [toleration]) is ("key" not in toleration)


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_that_is_not_ready_or_is_cordoned_keeps_what_it_has_and_gets_no_more(ready: str) -> None:
    assert not view(node(ready=ready)).open
    cordoned = node()
    cordoned["spec"]["unschedulable"] = True
    assert not node_of(view(cordoned), "train", Amounts()).schedulable
    assert view(cordoned).ready


def test_a_node_is_in_the_pool_of_its_label_else_trains_where_it_has_gpus() -> None:
    pool = Pool(node_pools=(NodePool("desk", Environment.BUILD), NodePool("big", Environment.TRAIN)))
    labelled = node({NODE_POOL: "desk"}, gpus=0)
    elsewhere = node({NODE_POOL: "of-another-team"})
    assert node_pool_of(view(labelled), pool) == "desk"
    assert node_pool_of(view(elsewhere), pool) is None
    assert node_pool_of(view(node()), pool) == "big"
    assert node_pool_of(view(node(gpus=0)), pool) is None


def test_what_others_use_is_not_the_pools() -> None:
    made = node_of(view(node(gpus=4)), "train", Amounts(gpus=9, cpus=500, memory=7))
    assert made.foreign == ForeignUse(unnumbered=4000, cpus=500, memory=7)


# -- pods ---------------------------------------------------------------------------------------------------


def container(cpu: str, gpus: int = 0, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}, "limits": {"memory": "1Gi", GPU: str(gpus)}}, **more}


def test_a_pod_uses_what_its_containers_ask_for_or_what_its_start_needs() -> None:
    spec = {
        "containers": [container("1", 1), container("500m", 1)],
        "initContainers": [container("4"), container("100m", restartPolicy="Always"), container("3")],
        "overhead": {"cpu": "10m"},
    }
    assert amounts(spec, GPU) == Amounts(gpus=2, cpus=4010, memory=3 * 1024)


CONTAINERS = st.builds(
    lambda cpu, memory, gpus: {"resources": {"requests": {"cpu": f"{cpu}m", "memory": memory, GPU: gpus}}},
    st.integers(0, 9000),
    st.integers(0, 2**40),
    st.integers(0, 8),
)


@given(st.lists(CONTAINERS, max_size=4), st.lists(CONTAINERS, max_size=3))
def test_a_pod_never_uses_less_than_any_of_its_containers(run: list[Any], first: list[Any]) -> None:
    whole = amounts({"containers": run, "initContainers": first}, GPU)
    for one in (*run, *first):
        own = amounts({"containers": [one]}, GPU)
        assert (own.gpus, own.cpus, own.memory) <= (
            whole.gpus,
            max(own.cpus, whole.cpus),
            max(own.memory, whole.memory),
        )
        assert own.cpus <= whole.cpus
        assert own.memory <= whole.memory
    assert whole.gpus >= sum(one["resources"]["requests"][GPU] for one in run)


def pod(labels: dict[str, str], phase: str = "Running") -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "labels": labels}
    spec = {"nodeName": "n1", "containers": [container("1", 1)]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def test_our_own_pods_are_known_by_their_labels_and_only_by_all_of_them() -> None:
    own = {**attempt_labels("mine", JobId("j-1"), 2), RANK: "3"}
    assert pod_view(pod(own), "mine", GPU).worker == Worker(JobId("j-1"), 2, 3)
    for labels in ({}, {INSTANCE: "mine"}, {**own, RANK: "first"}, {**own, INSTANCE: "other"}):
        seen = pod_view(pod(labels), "mine", GPU)
        assert seen.worker is None
        assert (seen.node, seen.amounts.gpus, seen.ended) == ("n1", 1, False)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_a_pod_that_has_not_ended_uses_its_node(phase: str) -> None:
    assert not pod_view(pod({}, phase), "mine", GPU).ended


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_uses_nothing(phase: str) -> None:
    assert pod_view(pod({}, phase), "mine", GPU).ended
