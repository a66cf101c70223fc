"""A state belongs to one scheduler at a time."""

from __future__ import annotations

from scheduler.errors import Conflict
from scheduler.files.locks import FileLock, Held


class StateLock(FileLock):
    """The lock file next to an SQLite file."""

    def take(self) -> None:
        """Raises `Conflict` where another scheduler holds it."""
        try:
            super().take()
        except Held as held:
            raise Conflict(
                f"Another scheduler{held.named} uses {self.path.parent}; "
                "stop it first, or name another folder for the state."
            ) from None
