"""GPU counts computed for all nodes at once equal those of each node."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.policy.nodecounts import NodeCounts
from scheduler.policy.sets import FIRST_NODE, union

steps = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=12)


@given(steps, steps, st.integers(1, 40))
def test_counts_are_added_removed_and_compared(
    ours: list[tuple[int, int]], others: list[tuple[int, int]], n: int
) -> None:
    counts, more = NodeCounts(), NodeCounts()
    for node, by in ours:
        counts.increase(FIRST_NODE << node, by)
    for node, by in others:
        more.increase(FIRST_NODE << node, by)
    for node, by in ours[::2]:
        counts.decrease(FIRST_NODE << node, by)
    counts.add(more)
    expected = Counter[int]()
    for node, by in (*ours[1::2], *others):
        expected[node] += by
    assert counts.at_least(n) == union(FIRST_NODE << node for node, count in expected.items() if count >= n)


@given(st.dictionaries(st.integers(0, 20), st.integers(1, 9)), st.integers(1, 10))
def test_counts_are_made_from_those_of_each_node(held: dict[int, int], n: int) -> None:
    assert NodeCounts.of(held).at_least(n) == union(FIRST_NODE << node for node, count in held.items() if count >= n)


def test_disjoint_sets_have_separate_counts() -> None:
    counts = NodeCounts.apart([(FIRST_NODE, 8), (FIRST_NODE << 1, 3), (FIRST_NODE << 2, 0)])
    assert counts.at_least(3) == FIRST_NODE | FIRST_NODE << 1
    assert counts.at_least(4) == FIRST_NODE
    assert not counts.at_least(9)
