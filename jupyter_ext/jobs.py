"""Many jobs as one: a table in the notebook, and verbs for all of them."""

from __future__ import annotations

import html
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from jupyter_ext import card
from jupyter_ext.connection import connect
from jupyter_ext.handle import Job
from jupyter_ext.inplace import ShownInPlace
from scheduler.errors import RunaiError
from scheduler.model import JobState, duration
from scheduler.schema import JobView

PAGE = 500
"""The most jobs in one answer of the scheduler."""

COLUMNS = ("job", "project", "state", "GPUs", "submitted", "ran")


class Jobs(ShownInPlace, Sequence[Job]):
    """Jobs in a fixed order, displayed as a table of their current states."""

    def __init__(self, jobs: Iterable[Job | JobView | str]) -> None:
        self._jobs = [job if isinstance(job, Job) else Job(job) for job in jobs]

    @classmethod
    def mine(cls, *, state: Iterable[JobState] | None = None, project: str | None = None, limit: int = 20) -> Jobs:
        """The user's own jobs, the newest first."""
        return cls(connect().jobs(state=state, project=project, mine=True, limit=limit).jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    @overload
    def __getitem__(self, at: int) -> Job: ...
    @overload
    def __getitem__(self, at: slice) -> Jobs: ...
    def __getitem__(self, at: int | slice) -> Job | Jobs:
        return Jobs(self._jobs[at]) if isinstance(at, slice) else self._jobs[at]

    @property
    def views(self) -> list[JobView]:
        """The current view of each job, read in one request."""
        waiting = {job.id for job in self._jobs if not job.seen.state.final}
        if waiting:
            told = {view.id: view for view in connect().jobs(mine=True, limit=PAGE).jobs}
            for job in self._jobs:
                if job.id in told:
                    job.seen = told[job.id]
        return [job.seen if job.id not in waiting or job.id in told else job.view for job in self._jobs]

    def wait(self) -> Jobs:
        """Wait without output until all of them have ended, successfully or not."""
        client = connect()
        for job in self._jobs:
            job.seen = client.wait(job.id)
        return self

    def cancel(self) -> Jobs:
        """Cancel the unfinished ones."""
        for job, view in zip(self._jobs, self.views, strict=True):
            if not view.state.final:
                job.cancel()
        return self

    # -- display ---------------------------------------------------------------------------------------

    def _rows(self) -> list[tuple[str, ...]]:
        try:
            views = self.views
        except RunaiError:
            views = [job.seen for job in self._jobs]
        return [_row(view) for view in views]

    def __repr__(self) -> str:
        rows = [COLUMNS, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
        )

    def _drawn(self) -> dict[str, Any]:
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}

    def _looked(self) -> object:
        return repr(self)

    def _unfinished(self) -> list[str]:
        return [job.id for job in self._jobs if not job.seen.state.final]

    def _repr_html_(self) -> str:
        """Names and reasons are a user's text: escaped, always."""
        head = "".join(f'<th style="text-align: left; padding: 0.25em 0.5em">{column}</th>' for column in COLUMNS)
        body = "".join(
            "<tr>"
            + "".join(f'<td style="text-align: left; padding: 0.25em 0.5em">{html.escape(text)}</td>' for text in row)
            + "</tr>"
            for row in self._rows()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(job: JobView) -> tuple[str, ...]:
    took = job.ran(job.ended or time.time())
    ran = "" if took is None else duration(took)
    submitted = time.strftime("%d %b %H:%M", time.localtime(job.submitted))
    state = card.state(job)
    return (
        job.name,
        job.project,
        state if not job.state.final else f"{job.state}",
        f"{job.total_gpus:g}",
        submitted,
        ran,
    )
