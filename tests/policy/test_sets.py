"""Sets of nodes, sets of GPUs and numbers don't mix.

`mypy` holds that: it refuses an `ignore` that ignores nothing. When the program runs, all of them are integers.
"""

from __future__ import annotations

import pytest

from scheduler.policy.sets import FIRST_GPU, FIRST_NODE, NO_NODES, GpuSet, NodeSet, union


def test_nodes_are_cut_with_nodes_only() -> None:
    nodes, gpus = FIRST_NODE << 2 | FIRST_NODE, FIRST_GPU << 2
    assert nodes & ~(FIRST_NODE << 2) == FIRST_NODE
    assert nodes & gpus  # type: ignore[operator]
    assert nodes | 1  # type: ignore[operator]
    of_nodes: NodeSet = gpus  # type: ignore[assignment]
    of_gpus: GpuSet = 4  # type: ignore[assignment]
    assert of_nodes.bit_count() == of_gpus.bit_count() == 1


@pytest.mark.parametrize("places", [(), (0,), (3, 1, 3)])
def test_a_union_has_the_nodes_of_all(places: tuple[int, ...]) -> None:
    nodes = union(FIRST_NODE << place for place in places)
    assert nodes.bit_count() == len(set(places))
    assert all(nodes & FIRST_NODE << place for place in places)
    assert bool(nodes) == (nodes != NO_NODES)
