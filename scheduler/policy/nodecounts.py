"""The number of GPUs held on each node, for all nodes at once.

The counts are kept by their binary digits: `digits[k]` is the set of the nodes whose count has the k-th digit. So the
counts of two groups of jobs are added, and compared with a number, by a few operations on sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.policy.sets import NO_NODES, NodeSet, from_places


class NodeCounts:
    """A count for each node."""

    __slots__ = ("digits",)

    def __init__(self) -> None:
        self.digits: list[NodeSet] = []

    @classmethod
    def apart(cls, counted: Iterable[tuple[NodeSet, int]]) -> NodeCounts:
        """The counts of sets of nodes that have no nodes in common."""
        counts = cls()
        digits = counts.digits
        for nodes, count in counted:
            if nodes:
                digits.extend([NO_NODES] * (count.bit_length() - len(digits)))
                for place in range(count.bit_length()):
                    if count >> place & 1:
                        digits[place] |= nodes
        return counts

    @classmethod
    def of(cls, held: Mapping[int, int]) -> NodeCounts:
        """The counts of nodes by their places."""
        counts = cls()
        most = max(held.values(), default=0)
        for place in range(most.bit_length()):
            counts.digits.append(from_places([node for node, count in held.items() if count >> place & 1]))
        return counts

    def copy(self) -> NodeCounts:
        twin = NodeCounts()
        twin.digits = self.digits.copy()
        return twin

    def at(self, index: int) -> int:
        """The count of one node, by its place."""
        return sum([1 << place for place, nodes in enumerate(self.digits) if nodes >> index & 1])

    def increase(self, nodes: NodeSet, by: int) -> None:
        """Add to the count of each of these nodes."""
        digits = self.digits
        place = 0
        while by:
            if by & 1:
                carry, at = nodes, place
                while carry:
                    if at >= len(digits):
                        digits.extend([NO_NODES] * (at + 1 - len(digits)))
                    both = digits[at] & carry
                    digits[at] ^= carry
                    carry = both
                    at += 1
            by >>= 1
            place += 1

    def decrease(self, nodes: NodeSet, by: int) -> None:
        """Subtract from the count of each of these nodes, which must be large enough."""
        digits = self.digits
        place = 0
        while by:
            if by & 1:
                borrow, at = nodes, place
                while borrow:
                    digits[at] ^= borrow
                    borrow &= digits[at]
                    at += 1
            by >>= 1
            place += 1

    def add(self, other: NodeCounts) -> None:
        """Add the counts of another."""
        for place, nodes in enumerate(other.digits):
            if nodes:
                self.increase(nodes, 1 << place)

    def at_least(self, count: int) -> NodeSet:
        """The nodes with `count` or more; `count` must be above 0."""
        digits = self.digits
        if count >> len(digits):
            return NO_NODES
        above, equal = NO_NODES, None
        for place in range(len(digits) - 1, -1, -1):
            nodes = digits[place]
            if not count >> place & 1:
                above |= nodes if equal is None else equal & nodes
                equal = ~nodes if equal is None else equal & ~nodes
            else:
                equal = nodes if equal is None else equal & nodes
        return above if equal is None else above | equal
