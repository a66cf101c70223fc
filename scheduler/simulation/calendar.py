"""The pool of a trace, whose guarantees may change by calendar as the trace goes on."""

from __future__ import annotations

from scheduler.model import Pool, pool_at
from scheduler.simulation.trace import MONDAY

EPOCH = MONDAY.timestamp()
"""Where a trace has dates, windows are those of its calendar; else it begins on a Monday at midnight, UTC."""

IN_VAIN = 50
"""The number of consecutive plans without a running or starting job after which the remaining jobs count as never
starting."""


class Calendar:
    """`advance` sets the time; `pool` has the guarantees in force then."""

    def __init__(self, declared: Pool) -> None:
        self._declared = declared
        self._in_force = pool_at(declared, 0.0, EPOCH)
        self._in_vain = 0

    @property
    def pool(self) -> Pool:
        return self._in_force.pool

    def advance(self, now: float) -> bool:
        """Whether other guarantees are in force now."""
        if self._in_force.holds_at(now):
            return False
        self._in_force = pool_at(self._declared, now, EPOCH)
        return True

    def in_vain(self, busy: bool) -> bool:
        """Whether time alone will not help either, after a plan in which anything was `busy` or nothing: guarantees
        that change every week do so for ever."""
        self._in_vain = 0 if busy else self._in_vain + 1
        return self._in_vain > IN_VAIN
