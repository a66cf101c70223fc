"""Which GPUs of one node to take: the tightest link group that fits.

GPUs are bits of an integer, a link group is such an integer. Results depend on their arguments alone and are kept.
"""

from __future__ import annotations

from functools import lru_cache

from scheduler.policy.sets import NO_GPUS, GpuSet


def best_group(gpu_links: tuple[GpuSet, ...], free: GpuSet) -> int:
    """The most free GPUs that one link group has; all that are free where the node has no link groups."""
    return max([(group & free).bit_count() for group in gpu_links]) if gpu_links else free.bit_count()


@lru_cache(maxsize=65536)
def choose(gpu_links: tuple[GpuSet, ...], free: GpuSet, count: int) -> GpuSet:
    """`count` of the `free` GPUs: from the group that they fit most tightly, else from the emptiest groups first."""
    groups = [group & free for group in gpu_links]
    fitting = [bits for bits in groups if bits.bit_count() >= count]
    if fitting:
        return _lowest(min(fitting, key=lambda bits: (bits.bit_count(), bits)), count)
    chosen = NO_GPUS
    for bits in (*sorted(groups, key=lambda bits: (-bits.bit_count(), bits)), free):
        chosen |= _lowest(bits & ~chosen, count - chosen.bit_count())
    return chosen


def _lowest(bits: GpuSet, count: int) -> GpuSet:
    """The `count` lowest of some bits, or all of them if they are fewer."""
    chosen = NO_GPUS
    while bits and count > 0:
        low = bits & -bits
        bits ^= low
        chosen |= low
        count -= 1
    return chosen


@lru_cache(maxsize=65536)
def gpus_of(bits: GpuSet) -> tuple[int, ...]:
    """The numbers of the GPUs in `bits`."""
    return tuple([gpu for gpu in range(bits.bit_length()) if bits >> gpu & 1])
