"""Which GPUs of one node to take: the tightest link group that fits.

GPUs are bits of an integer, a link group is such an integer. Results depend on their arguments alone and are kept.
"""

from __future__ import annotations

from functools import lru_cache


def best_group(links: tuple[int, ...], free: int) -> int:
    """The most free GPUs that one link group has; all that are free where the node tells of no links."""
    return max([(group & free).bit_count() for group in links]) if links else free.bit_count()


@lru_cache(maxsize=65536)
def choose(links: tuple[int, ...], free: int, count: int) -> int:
    """`count` of the `free` GPUs: from the group that they fit most tightly, else from the emptiest groups first."""
    chosen = 0
    fitting = [group & free for group in links if (group & free).bit_count() >= count]
    if fitting:
        pools = [min(fitting, key=lambda bits: (bits.bit_count(), bits))]
    else:
        pools = sorted((group & free for group in links), key=lambda bits: (-bits.bit_count(), bits))
        pools.append(free)
    for pool in pools:
        pool &= ~chosen
        while pool and count:
            low = pool & -pool
            pool ^= low
            chosen |= low
            count -= 1
    return chosen
