"""Sets of nodes and of GPUs as the bits of one integer, so that the sets that a search needs are cut by `&`.

They are plain integers when the program runs, for speed. For the type checker they are types of their own, which don't
mix with each other or with numbers: a `NewType` of `int` would not do, as `&` of two of its values is an `int` again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Literal, Self

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
        def __index__(self) -> int: ...
        def __lt__(self, other: Self, /) -> bool: ...
        def __bool__(self) -> bool: ...
        def bit_count(self) -> int: ...
        def bit_length(self) -> int: ...
        def to_bytes(self, length: int, byteorder: Literal["little"], /) -> bytes: ...

    class NodeSet(_Bits):
        """A set of nodes: the bits of their places in the index. -1 is all of them."""

    class GpuSet(_Bits):
        """A set of GPUs of one node: the bits of their numbers."""

else:
    NodeSet = GpuSet = int

NO_NODES, FIRST_NODE, ALL_NODES = NodeSet(0), NodeSet(1), NodeSet(-1)

NO_GPUS, FIRST_GPU, ALL_GPUS = GpuSet(0), GpuSet(1), GpuSet(-1)


def union(sets: Iterable[NodeSet]) -> NodeSet:
    """The nodes that are in any of some sets."""
    nodes = NO_NODES
    for each in sets:
        nodes |= each
    return nodes


def from_places(of: Sequence[int]) -> NodeSet:
    """The set of the nodes at some places."""
    found = bytearray((max(of, default=0) >> 3) + 1)
    for place in of:
        found[place >> 3] |= 1 << (place & 7)
    return NodeSet(int.from_bytes(found, "little"))


_AT_ONCE = (1 << 256) - 1


def places(nodes: NodeSet) -> Iterator[int]:
    """The places of the nodes of a set, in order. The set is taken apart 256 bits at a time: small numbers are
    faster."""
    bits, at = index(nodes), 0
    while bits:
        gap = (bits & -bits).bit_length() - 1
        bits, at = bits >> gap, at + gap
        part = bits & _AT_ONCE
        while part:
            low = part & -part
            part ^= low
            yield at + low.bit_length() - 1
        bits, at = bits >> 256, at + 256
