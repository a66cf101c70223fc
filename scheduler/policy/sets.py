"""Sets as the bits of one integer, so that the sets that a search needs are cut by `&`.

They are other names for `int` and not types of their own: `&`, `|` and `~` of such a type would be plain integers
again.
"""

NodeSet = int
"""A set of nodes: the bits of their places in the index. -1 is all of them."""

GpuSet = int
"""A set of GPUs of one node: the bits of their numbers."""
