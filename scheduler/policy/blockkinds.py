"""The kinds of reasons why a workload waits, for programs."""

from __future__ import annotations

from enum import StrEnum


class BlockKind(StrEnum):
    LIMIT = "limit"
    GUARANTEE = "guarantee"
    GPU_TYPE = "gpu_type"
    TOPOLOGY = "topology"
    CAPACITY = "capacity"
    RESERVATION = "reservation"
    FAIR_SHARE = "fair_share"
    QUOTA = "quota"
    PROJECT = "project"
    AFTER = "after"
    ARRAY = "array"
    RETRY = "retry"
    WINDOW = "window"
    DELEGATED = "delegated"
