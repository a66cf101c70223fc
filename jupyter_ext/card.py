"""The display of a job in a notebook: a bundle with its id for a live renderer, and HTML and text for everything
else."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Sequence
from typing import Any

from jupyter_ext import reports
from scheduler.model import JobState, duration
from scheduler.schema import JobView

MIME = "application/vnd.runai.job+json"
"""`{"id": …}`: a renderer asks the server for the rest, so that it is also correct after a reload.

`"follows": true` where a kernel writes the job's output below the card: when it no longer does (it was restarted, the
page was reloaded), the renderer continues instead.
"""

_COLOURS = {
    JobState.RUNNING: "var(--jp-success-color1, #388e3c)",
    JobState.SUCCEEDED: "var(--jp-success-color1, #388e3c)",
    JobState.FAILED: "var(--jp-error-color1, #d32f2f)",
}
_QUIET = "var(--jp-ui-font-color2, #757575)"


def bundle(job: JobView, *, follows: bool = False, line: Sequence[reports.Point] = ()) -> dict[str, Any]:
    """The job as a mime bundle; `line`: its reports, for front ends that show the HTML."""
    return {
        MIME: {"id": job.id, "follows": True} if follows else {"id": job.id},
        "text/html": head(job) + figures(job, line),
        "text/plain": text(job),
    }


def text(job: JobView) -> str:
    """One line: `cell-12 (j3f…) · vision: queued. Waits for 2 GPUs …`."""
    return f"{job.name} ({job.id}) · {job.project}: {state(job)}"


def state(job: JobView) -> str:
    """The state with its reason and, while it waits, its position and estimated start."""
    news = _news(job)
    by = [news] if news.startswith("by ") else []
    said = ", ".join([f"{job.state}{_after(job)}", *_where(job), *by]) + "."
    return said if by or not news else f"{said} {news[:1].upper()}{news[1:]}."


def _news(job: JobView) -> str:
    """The reason without its full stop and the state that it begins with, which is shown already."""
    if job.state is JobState.RUNNING:
        return job.notice.rstrip(".")
    if _is_paused_for_another(job):
        start = job.estimated_start
        if start is None:
            return job.notice.rstrip(".")
        again = f"about {_clock(start)}{_range(job)}" if start > time.time() else "any moment"
        return f"{job.notice.rstrip('.')}; resumes at {again}"
    if job.state in (JobState.STARTING, JobState.SUCCEEDED):
        return ""
    return re.sub(rf"^{job.state}\b[\s.;:,]*", "", job.reason, flags=re.IGNORECASE).rstrip(".")


def _where(job: JobView) -> list[str]:
    found: list[str] = []
    if job.state.holds_gpus and job.attempts:
        places = [
            f"{w.node} · GPU {', '.join(map(str, w.gpus))}" if w.gpus else w.node for w in job.attempts[-1].workers
        ]
        if len(places) == 1:
            found.append(f"on {places[0]}")
        elif places:
            found.append(f"{len(places)} workers")
    if job.state is JobState.QUEUED:
        if job.position is not None and job.position > 1:
            found.append(f"number {job.position} in line")
        start = None if _is_paused_for_another(job) else job.estimated_start
        if start is not None and start > time.time():
            found.append(f"likely to start at {_clock(start)}{_range(job)}")
    return found


def _is_paused_for_another(job: JobView) -> bool:
    """Whether it waits for the end of the job that it was paused for."""
    return job.state is JobState.QUEUED and bool(job.notice)


def _clock(at: float) -> str:
    return time.strftime("%H:%M", time.localtime(at))


def _range(job: JobView) -> str:
    """` (14:05–14:40)`, where the start is uncertain by more than a minute."""
    if job.earliest_start is None or job.latest_start is None:
        return ""
    earliest, latest = _clock(max(time.time(), job.earliest_start)), _clock(job.latest_start)
    return "" if earliest == latest else f" ({earliest}–{latest})"


def _after(job: JobView) -> str:
    took = job.ran(job.ended) if job.state.final and job.ended is not None else None
    return "" if took is None else f" after {duration(took)}"


def head(job: JobView) -> str:
    """A job's name and reason are a user's text: escaped, always."""
    colour = _COLOURS.get(job.state, _QUIET)
    mark = "●" if job.state in _COLOURS else "○"
    return (
        f'<div><span style="color:{colour}">{mark}</span> <b>{html.escape(job.name)} · {html.escape(job.project)}</b> '
        f'<span style="color:{_QUIET}">{html.escape(state(job))}</span></div>'
    )


# -- figures ------------------------------------------------------------------------------------------------


def figures(job: JobView, line: Sequence[reports.Point]) -> str:
    """The progress of a job by its reports, and its metrics."""
    told = reports.progress(line)
    if told is None or told.total is None:
        return metrics(line)
    bar = f'<progress value="{told.done:g}" max="{max(told.total, 1):g}" style="width: 240px"></progress>'
    return f"<div>{bar} {steps(told, job)}</div>{metrics(line)}"


def steps(told: reports.Progress, job: JobView) -> str:
    """`120 / 5000 · 2 min 3 s left`."""
    left = "" if told.left is None or job.state.final else f" · {duration(told.left)} left"
    return f"{told.done:g} / {told.total:g}{left}"


def metrics(line: Sequence[reports.Point]) -> str:
    return "".join(_metric(name, values) for name, values in reports.metrics(line).items())


def _metric(name: str, values: list[float]) -> str:
    return (
        '<span style="display: inline-block; margin-right: 16px; vertical-align: top">'
        f"<div>{html.escape(name)} <b>{values[-1]:.4g}</b></div>{_sparkline(values)}</span>"
    )


def _sparkline(values: list[float], width: int = 120, height: int = 24) -> str:
    if len(values) < 2:
        return ""
    shown = values[:: max(1, len(values) // width)]
    if shown[-1] != values[-1]:
        shown.append(values[-1])
    low, high = min(shown), max(shown)
    across, up = width / (len(shown) - 1), (height - 4) / ((high - low) or 1)
    points = " ".join(f"{at * across:.1f},{height - 2 - (value - low) * up:.1f}" for at, value in enumerate(shown))
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" aria-hidden="true">'
        f'<polyline points="{points}" fill="none" stroke="var(--jp-brand-color1, #1976d2)" stroke-width="1.5"/></svg>'
    )
