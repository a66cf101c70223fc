"""A live table of jobs with ipywidgets, for front ends without JupyterLab's renderer.

What must hold: the kernel never waits for the scheduler, and polling ends when all jobs have ended or the table is
closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import ipywidgets as widgets

LOOK = 2.0
"""Seconds between two polls of the jobs."""


class JobsWidget(widgets.HTML):
    """A table that `draw` returns as HTML, redrawn until `ended` is true."""

    def __init__(self, draw: Callable[[], str], ended: Callable[[], bool]) -> None:
        super().__init__(draw())
        self._draw, self._ended = draw, ended
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="table of jobs", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        super().close()

    def _run(self) -> None:
        while not self._ended() and not self._closed.wait(LOOK):
            self.value = self._draw()
