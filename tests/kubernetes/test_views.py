"""From a cluster's objects to the nodes of a pool and their foreign use: pure functions, without a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.kubernetes.names import INSTANCE, NODE_POOL, RANK, attempt_labels
from scheduler.engines.kubernetes.nodeviews import STILL_OFFERED, TOPOLOGY, node_of, node_pool_of, node_view, takes
from scheduler.engines.kubernetes.podviews import Amounts, GpuResources, amounts, pod_view
from scheduler.engines.kubernetes.quantities import count, mib, milli, quantity
from scheduler.model import TRAIN_POOL, Environment, ForeignUse, Isolation, JobId, NodePool, NodePoolName, Pool

GPU = "nvidia.com/gpu"
WHOLE = GpuResources(GPU)
MIG, SHARED = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"
PARTS = GpuResources(GPU, {MIG: 7, SHARED: 4})
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
    return node_view(found, WHOLE, TOPOLOGY, TOLERATIONS)


# -- quantities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("500m", 0.5), ("1.5", 1.5), ("2k", 2000), ("1Ki", 1024), ("1e3", 1000), ("2E", 2e18), ("1Gi", 2**30)],
)
def test_quantities_are_those_of_kubernetes(text: str, number: float) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["", "many", "1Q", "Gi"])
def test_an_invalid_quantity_is_refused(text: str) -> None:
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
    made = node_of(view(found), TRAIN_POOL, Amounts())
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
    assert not node_of(view(cordoned), TRAIN_POOL, Amounts()).schedulable
    assert view(cordoned).ready


def test_a_node_is_in_the_pool_of_its_label_else_trains_where_it_has_gpus() -> None:
    pool = Pool(
        node_pools=(NodePool(NodePoolName("desk"), Environment.BUILD), NodePool(NodePoolName("big"), Environment.TRAIN))
    )
    labelled = node({NODE_POOL: "desk"}, gpus=0)
    elsewhere = node({NODE_POOL: "of-another-team"})
    assert node_pool_of(view(labelled), pool) == "desk"
    assert node_pool_of(view(elsewhere), pool) is None
    assert node_pool_of(view(node()), pool) == "big"
    assert node_pool_of(view(node(gpus=0)), pool) is None


def test_foreign_use_is_not_available_to_the_pool() -> None:
    made = node_of(view(node(gpus=4)), TRAIN_POOL, Amounts(gpus=9, cpus=500, memory=7))
    assert made.foreign == ForeignUse(unnumbered=4000, cpus=500, memory=7)


@pytest.mark.parametrize(
    ("offered", "failing", "gpus", "open", "foreign"),
    [
        (4, (), 4, True, ForeignUse(unnumbered=1000)),
        (3, (), 3, True, ForeignUse(unnumbered=1000)),  # who knows why
        (3, (2,), 4, True, ForeignUse(((2, 1000),), unnumbered=1000)),
        (2, (2,), 4, True, ForeignUse(((2, 1000),), unnumbered=2000)),
        (4, (2,), 4, False, ForeignUse(((2, 1000),), unnumbered=1000)),
        (3, (0, 2), 4, False, ForeignUse(((0, 1000), (2, 1000)), unnumbered=1000)),
    ],
)
def test_a_failing_gpu_gets_no_work_and_while_a_pod_may_be_given_it_nor_does_its_node(
    offered: int, failing: tuple[int, ...], gpus: int, open: bool, foreign: ForeignUse
) -> None:
    found = node(gpus=4)
    found["status"]["capacity"] = {GPU: "4"}
    found["status"]["allocatable"][GPU] = str(offered)
    made = node_of(view(found), TRAIN_POOL, Amounts(gpus=1), tuple((gpu, "Xid 79.") for gpu in failing))
    assert (made.gpus, made.schedulable, made.foreign) == (gpus, open, foreign)
    reason = "Xid 79." if open else f"Xid 79. {STILL_OFFERED}"
    assert made.failing == tuple((gpu, reason) for gpu in failing)


@pytest.mark.parametrize(
    ("offered", "sharing", "gpus", "gpu_parts", "isolation"),
    [
        ({GPU: "8"}, "none", 8, 1, Isolation.UNKNOWN),
        ({GPU: "0", MIG: "14"}, "none", 2, 7, Isolation.MIG),
        ({GPU: "0", SHARED: "16"}, "mps", 4, 4, Isolation.MPS),
        ({SHARED: "16"}, "time-slicing", 4, 4, Isolation.TIME_SLICING),
        ({SHARED: "16"}, "", 4, 4, Isolation.UNKNOWN),
        ({GPU: "4", SHARED: "16"}, "mps", 4, 1, Isolation.UNKNOWN),
        ({}, "", 0, 1, Isolation.UNKNOWN),
    ],
)
def test_a_node_offers_its_gpus_whole_or_in_parts(
    offered: dict[str, str], sharing: str, gpus: int, gpu_parts: int, isolation: Isolation
) -> None:
    found = node({"nvidia.com/gpu.sharing-strategy": sharing, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED"})
    found["status"]["allocatable"] = offered
    made = node_of(node_view(found, PARTS, TOPOLOGY, TOLERATIONS), TRAIN_POOL, Amounts(gpus=1, parts=2))
    assert (made.gpus, made.gpu_parts, made.isolation) == (gpus, gpu_parts, isolation)
    assert made.foreign.unnumbered == (min(gpus, 1) * 1000 if gpu_parts == 1 else 2 * (1000 // gpu_parts))
    assert made.gpu_type == view(node({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})).gpu_type


@pytest.mark.parametrize(
    ("sharing", "memory", "isolation", "limit"),
    [
        ("time-slicing", "81920", Isolation.MEMORY_LIMIT, 20480),
        ("time-slicing", "", Isolation.TIME_SLICING, None),
        ("mps", "81920", Isolation.MPS, None),
    ],
)
def test_a_part_of_a_time_sliced_gpu_of_known_memory_has_its_limit(
    sharing: str, memory: str, isolation: Isolation, limit: int | None
) -> None:
    found = node({"nvidia.com/gpu.sharing-strategy": sharing, "nvidia.com/gpu.memory": memory}, gpus=0)
    found["status"]["allocatable"][SHARED] = "16"
    made = node_view(found, replace(PARTS, memory_limits=True), TOPOLOGY, TOLERATIONS)
    assert (made.isolation, made.memory_limit) == (isolation, limit)


# -- pods ---------------------------------------------------------------------------------------------------


def test_parts_of_gpus_are_counted_apart() -> None:
    asks = {"resources": {"limits": {MIG: "1", SHARED: "2"}}}
    assert amounts({"containers": [asks, container("1", 3)]}, PARTS) == Amounts(3, 1000, 1024, 3)


def container(cpu: str, gpus: int = 0, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}, "limits": {"memory": "1Gi", GPU: str(gpus)}}, **more}


def test_a_pod_uses_what_its_containers_ask_for_or_what_its_start_needs() -> None:
    spec = {
        "containers": [container("1", 1), container("500m", 1)],
        "initContainers": [container("4"), container("100m", restartPolicy="Always"), container("3")],
        "overhead": {"cpu": "10m"},
    }
    assert amounts(spec, WHOLE) == Amounts(gpus=2, cpus=4010, memory=3 * 1024)


CONTAINERS = st.builds(
    lambda cpu, memory, gpus: {"resources": {"requests": {"cpu": f"{cpu}m", "memory": memory, GPU: gpus}}},
    st.integers(0, 9000),
    st.integers(0, 2**40),
    st.integers(0, 8),
)


@given(st.lists(CONTAINERS, max_size=4), st.lists(CONTAINERS, max_size=3))
def test_a_pod_never_uses_less_than_any_of_its_containers(run: list[Any], first: list[Any]) -> None:
    whole = amounts({"containers": run, "initContainers": first}, WHOLE)
    for one in (*run, *first):
        own = amounts({"containers": [one]}, WHOLE)
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


def test_our_own_pods_are_known_by_all_of_their_labels_and_their_namespace() -> None:
    own = {**attempt_labels("mine", JobId("j-1"), 2), RANK: "3"}
    assert pod_view(pod(own), "mine", "ns", WHOLE).worker == Worker(JobId("j-1"), 2, 3)
    for labels in ({}, {INSTANCE: "mine"}, {**own, RANK: "first"}, {**own, INSTANCE: "other"}):
        seen = pod_view(pod(labels), "mine", "ns", WHOLE)
        assert seen.worker is None
        assert (seen.node, seen.amounts.gpus, seen.ended) == ("n1", 1, False)
    assert pod_view(pod(own), "mine", "another", WHOLE).worker is None


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_a_pod_that_has_not_ended_uses_its_node(phase: str) -> None:
    assert not pod_view(pod({}, phase), "mine", "ns", WHOLE).ended


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_uses_nothing(phase: str) -> None:
    assert pod_view(pod({}, phase), "mine", "ns", WHOLE).ended
