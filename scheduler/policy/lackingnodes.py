"""Which waiting jobs more nodes would let start: those for which a cluster adds nodes.

A job that may not have more now (by a limit, a guarantee or a window), that waits for GPUs which others are giving back
for it, or whose GPUs are reserved for a job ahead of it needs no new nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from scheduler.model import WorkloadId
from scheduler.policy.blocking import (
    AboveShare,
    AvoidsNodes,
    Blocker,
    NeverFits,
    NoCapacity,
    NoDomain,
    NoGpuOfType,
)
from scheduler.policy.types import Plan

LOOKED_AT = 500
"""Jobs that are looked at, so that this takes milliseconds however many wait."""


def lacking_nodes(plan: Plan) -> Iterator[WorkloadId]:
    """The jobs that lack nodes, of each project in turn in the order of its line."""
    for id in islice(plan.in_line(), LOOKED_AT):
        if _lacks_nodes(plan.decisions[id].blocked_by):
            yield id


def _lacks_nodes(blocker: Blocker | None) -> bool:
    match blocker:
        case NoCapacity() | NoDomain() | NoGpuOfType() | NeverFits() | AvoidsNodes() | AboveShare():
            return True  # beyond its share, a project may use what nobody else does
    return False
