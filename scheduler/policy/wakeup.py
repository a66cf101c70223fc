"""When to plan again even if nothing changes."""

from __future__ import annotations


class Wakeup:
    """`at` is the earliest future time that was noted; none where nothing changes with time alone."""

    __slots__ = ("at", "now")

    def __init__(self, now: float) -> None:
        self.now = now
        self.at: float | None = None

    def note(self, at: float | None) -> None:
        if at is not None and at > self.now:
            self.at = at if self.at is None else min(self.at, at)
