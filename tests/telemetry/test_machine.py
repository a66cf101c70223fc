"""One machine serves several node pools, and no GPU belongs to two of them."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import Environment, GpuType, Node, NodePool, NodePoolName, Pool
from scheduler.telemetry.local import find_gpus
from scheduler.telemetry.machine import Gpu, Machine, cpus, divide, host, memory, shares
from scheduler.telemetry.machine_gpus import DeclaredGpus

B, T, U, V = map(NodePoolName, "btuv")

BUILD, TRAIN = Environment.BUILD, Environment.TRAIN


@pytest.mark.parametrize(
    ("gpus", "build", "train"),
    [(0, 0, 0), (1, 0, 1), (2, 1, 1), (3, 1, 2), (4, 1, 3), (7, 1, 6), (8, 2, 6), (16, 4, 12)],
)
def test_a_quarter_is_for_building(gpus: int, build: int, train: int) -> None:
    assert shares(gpus, Pool().node_pools) == [build, train]


@pytest.mark.parametrize(
    ("node_pools", "expected"),
    [
        ([NodePool(B, BUILD, gpus=3), NodePool(T, TRAIN)], [3, 5]),
        ([NodePool(B, BUILD), NodePool(T, TRAIN, gpus=7)], [1, 7]),
        ([NodePool(B, BUILD), NodePool(T, TRAIN, gpus=2), NodePool(U, TRAIN)], [2, 2, 4]),
        ([NodePool(T, TRAIN)], [8]),
        ([NodePool(B, BUILD)], [8]),
        ([NodePool(B, BUILD, gpus=2), NodePool(T, TRAIN, gpus=4)], [2, 4]),
        ([NodePool(B, BUILD, gpus=6), NodePool(T, TRAIN, gpus=6)], [6, 2]),
        ([NodePool(T, TRAIN), NodePool(U, TRAIN), NodePool(V, TRAIN)], [3, 3, 2]),
        ([NodePool(B, BUILD, gpus=0), NodePool(T, TRAIN)], [0, 8]),
    ],
)
def test_a_node_pool_gets_what_it_says(node_pools: list[NodePool], expected: list[int]) -> None:
    assert shares(8, node_pools) == expected


_NODE_POOLS = st.lists(
    st.tuples(st.sampled_from(Environment), st.none() | st.integers(0, 20)), min_size=1, max_size=6
).map(lambda given: [NodePool(NodePoolName(f"p{i}"), each[0], gpus=each[1]) for i, each in enumerate(given)])


@given(gpus=st.integers(0, 32), kinds=st.integers(1, 3), node_pools=_NODE_POOLS)
def test_no_gpu_belongs_to_two_nodes(gpus: int, kinds: int, node_pools: list[NodePool]) -> None:
    machine = Machine(
        "m",
        tuple(Gpu(str(i), GpuType(f"T{i % kinds}"), 1000) for i in range(gpus)),
        (tuple(range(gpus)),),
        64_000,
        512,
    )
    nodes = divide(machine, Pool(node_pools=tuple(node_pools)))
    given_out = [device for node in nodes for device in node.devices]
    assert len(given_out) == len(set(given_out))
    assert {node.node_pool for node in nodes} == {each.name for each in node_pools}
    assert len({node.name for node in nodes}) == len(nodes)
    assert sum(node.cpus or 0 for node in nodes) <= 64_000
    for node in nodes:
        assert len(node.devices) == node.gpus
        assert {machine.gpus[int(device)].type for device in node.devices} <= {node.gpu_type}
        assert all(0 <= gpu < node.gpus for group in node.gpu_links for gpu in group)
    if any(each.gpus is None for each in node_pools) and {each.environment for each in node_pools} == {TRAIN}:
        assert len(given_out) == gpus  # none is forgotten


def test_declared_gpus_have_their_numbers_on_the_machine() -> None:
    found = DeclaredGpus(4)
    assert found.declared
    build, train = found.nodes(Pool())
    assert (build.name, train.name) == (f"{host()}-build", f"{host()}-train")
    assert (build.devices, train.devices) == (("0",), ("1", "2", "3"))
    assert build.declared
    assert train.declared
    assert (build.gpu_type, build.gpu_memory) == (None, None)
    assert found.usage((build, train)) == {}


def test_a_node_has_its_part_of_cpus_and_memory() -> None:
    machine = Machine("m", tuple(Gpu(str(i)) for i in range(4)), cpus=32_000, memory=1024)
    assert [(node.cpus, node.memory) for node in divide(machine, Pool())] == [(8_000, 256), (24_000, 768)]


def test_this_machine_has_cpus_and_memory() -> None:
    assert 0 < cpus() <= (os.cpu_count() or 0) * 1000
    assert memory() > 100


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia"), reason="this machine has GPUs of its own")
def test_without_gpus_eight_are_declared_unless_said_otherwise() -> None:
    def count(nodes: tuple[Node, ...]) -> int:
        return sum(node.gpus for node in nodes)

    assert count(find_gpus().nodes(Pool())) == 8
    assert count(find_gpus(3).nodes(Pool())) == 3
