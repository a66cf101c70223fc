"""What separates workloads that share a GPU."""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    """What stands between the workloads that have parts of one GPU.

    `memory-limit` is time-slicing with limits of the driver; `watcher` is time-slicing where the scheduler ends those
    that use more memory than they have been given.
    """

    UNKNOWN = "unknown"
    MIG = "mig"
    MPS = "mps"
    TIME_SLICING = "time-slicing"
    MEMORY_LIMIT = "memory-limit"
    WATCHER = "watcher"
