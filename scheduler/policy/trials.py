"""Trials of a state whose steps are recorded with their inverses: checkpoint, try, commit or roll back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Journal = list[tuple[Callable[..., None], tuple[Any, ...]]]
"""The inverse of each step, with its arguments."""


class Trial:
    """A checkpoint to which the state returns unless the trial is committed. Trials may be nested."""

    __slots__ = ("_checkpoint", "_committed", "_journal")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._checkpoint = len(journal)
        self._committed = False

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._committed:
            self.rollback()

    def commit(self) -> None:
        """Keep the steps (as long as a trial around this one is kept)."""
        self._committed = True

    def rollback(self) -> None:
        """Take back every step since the checkpoint, the last first."""
        journal, checkpoint = self._journal, self._checkpoint
        while len(journal) > checkpoint:
            step, arguments = journal.pop()
            step(*arguments)
