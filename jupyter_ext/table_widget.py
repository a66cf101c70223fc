"""Many jobs as one live table from ipywidgets, for front ends without JupyterLab's renderer.

What must hold: the kernel never waits for the scheduler, and nobody is asked any more when all jobs have ended or the
table is closed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import ipywidgets as widgets

if TYPE_CHECKING:
    from jupyter_ext.jobs import Jobs

LOOK = 2.0
"""Seconds between two looks at the jobs."""


class JobsWidget(widgets.HTML):
    """The table as `Jobs` draws it, drawn again as the jobs go on."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__(jobs._repr_html_())
        self._jobs = jobs
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="table of jobs", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        super().close()

    def _run(self) -> None:
        while any(not job.seen.state.final for job in self._jobs) and not self._closed.wait(LOOK):
            self.value = self._jobs._repr_html_()
