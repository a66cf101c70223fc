"""How a job looks in a notebook: a bundle that holds its id for a live renderer, and HTML and text for everything else."""

from __future__ import annotations

import html
import time
from typing import Any

from scheduler.api.schema import JobView
from scheduler.model import JobState

MIME = "application/vnd.runai.job+json"
"""`{"id": …}`: a renderer asks the server for the rest, so that it is right after a reload, too.

`"follows": true` where a kernel writes the job's output below the card: when it no longer does (it was restarted, the page
was reloaded), the renderer goes on in its place.
"""

_COLOURS = {
    JobState.RUNNING: "var(--jp-success-color1, #388e3c)",
    JobState.SUCCEEDED: "var(--jp-success-color1, #388e3c)",
    JobState.FAILED: "var(--jp-error-color1, #d32f2f)",
}
_QUIET = "var(--jp-ui-font-color2, #757575)"


def bundle(job: JobView, *, follows: bool = False) -> dict[str, Any]:
    """The job as a mime bundle."""
    return {
        MIME: {"id": job.id, "follows": True} if follows else {"id": job.id},
        "text/html": head(job),
        "text/plain": text(job),
    }


def text(job: JobView) -> str:
    """One line: `cell-12 (j3f…) · vision: queued. Waits for 2 GPUs …`."""
    return f"{job.name} ({job.id}) · {job.project}: {state(job)}"


def state(job: JobView) -> str:
    """The state with its reason and, while it waits, its place and when it is likely to start."""
    said = ", ".join([f"{job.state}{_after(job)}", *_where(job)]) + "."
    if job.reason and job.state not in (JobState.STARTING, JobState.RUNNING, JobState.SUCCEEDED):
        said += f" {job.reason.rstrip('.')}."
    return said


def _where(job: JobView) -> list[str]:
    found: list[str] = []
    if job.state.holds_gpus and job.attempts:
        places = [
            f"{w.node} · GPU {', '.join(map(str, w.gpus))}" if w.gpus else w.node
            for w in job.attempts[-1].workers
        ]
        if len(places) == 1:
            found.append(f"on {places[0]}")
        elif places:
            found.append(f"{len(places)} workers")
    if job.state is JobState.QUEUED:
        if job.position is not None and job.position > 1:
            found.append(f"number {job.position} in line")
        if job.estimated_start is not None and job.estimated_start > time.time():
            found.append(f"likely to start at {time.strftime('%H:%M', time.localtime(job.estimated_start))}")
    return found


def _after(job: JobView) -> str:
    if not job.state.final or job.started is None or job.ended is None:
        return ""
    return f" after {duration(job.ended - job.started)}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def head(job: JobView) -> str:
    """A job's name and reason are a user's text: escaped, always."""
    colour = _COLOURS.get(job.state, _QUIET)
    mark = "●" if job.state in _COLOURS else "○"
    return (
        f'<div><span style="color:{colour}">{mark}</span> <b>{html.escape(job.name)} · {html.escape(job.project)}</b> '
        f'<span style="color:{_QUIET}">{html.escape(state(job))}</span></div>'
    )
