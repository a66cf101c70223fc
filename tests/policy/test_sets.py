"""Sets of nodes, sets of GPUs and numbers do not mix.

`mypy` checks that: it refuses an unused `ignore`. At run time, all of them are integers.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.policy.sets import FIRST_GPU, FIRST_NODE, NO_NODES, GpuSet, NodeSet, from_places, places, union


def test_node_sets_intersect_with_node_sets_only() -> None:
    nodes, gpus = FIRST_NODE << 2 | FIRST_NODE, FIRST_GPU << 2
    assert nodes & ~(FIRST_NODE << 2) == FIRST_NODE
    assert nodes & gpus  # type: ignore[operator]
    assert nodes | 1  # type: ignore[operator]
    of_nodes: NodeSet = gpus  # type: ignore[assignment]
    of_gpus: GpuSet = 4  # type: ignore[assignment]
    assert of_nodes.bit_count() == of_gpus.bit_count() == 1


@pytest.mark.parametrize("at", [(), (0,), (3, 1, 3)])
def test_a_union_has_the_nodes_of_all(at: tuple[int, ...]) -> None:
    nodes = union(FIRST_NODE << place for place in at)
    assert nodes.bit_count() == len(set(at))
    assert all(nodes & FIRST_NODE << place for place in at)
    assert bool(nodes) == (nodes != NO_NODES)


@given(st.sets(st.integers(0, 1500)))
def test_a_set_has_the_places_that_it_was_made_from(at: set[int]) -> None:
    nodes = from_places(sorted(at))
    assert nodes == union(FIRST_NODE << place for place in at)
    assert list(places(nodes)) == sorted(at)
