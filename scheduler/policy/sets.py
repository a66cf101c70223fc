"""Sets of nodes and of GPUs as the bits of one integer, so that the sets that a search needs are cut by `&`.

They are plain integers when the program runs, for speed. For the type checker they are types of their own, which don't
mix with each other or with numbers: a `NewType` of `int` would not do, as `&` of two of its values is an `int` again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    class _Bits:
        """What the sets can do, of all that an integer can."""

        def __new__(cls, bits: int, /) -> Self: ...
        def __and__(self, other: Self, /) -> Self: ...
        def __or__(self, other: Self, /) -> Self: ...
        def __xor__(self, other: Self, /) -> Self: ...
        def __invert__(self) -> Self: ...
        def __neg__(self) -> Self: ...
        def __lshift__(self, by: int, /) -> Self: ...
        def __rshift__(self, by: int, /) -> int: ...
        def __lt__(self, other: Self, /) -> bool: ...
        def __bool__(self) -> bool: ...
        def bit_count(self) -> int: ...
        def bit_length(self) -> int: ...

    class NodeSet(_Bits):
        """A set of nodes: the bits of their places in the index. -1 is all of them."""

    class GpuSet(_Bits):
        """A set of GPUs of one node: the bits of their numbers."""

else:
    NodeSet = GpuSet = int

NO_NODES, FIRST_NODE, ALL_NODES = NodeSet(0), NodeSet(1), NodeSet(-1)

NO_GPUS, FIRST_GPU = GpuSet(0), GpuSet(1)


def union(sets: Iterable[NodeSet]) -> NodeSet:
    """The nodes that are in any of some sets."""
    nodes = NO_NODES
    for each in sets:
        nodes |= each
    return nodes
