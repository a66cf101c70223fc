"""Many jobs as one, each with its own values: a live table and picture, and access to the best one's result."""

from __future__ import annotations

import contextlib
import html
import threading
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from jupyter_ext import parallel, reports
from jupyter_ext.changes import Changes
from jupyter_ext.connection import connect
from jupyter_ext.handle import Detached, Job, PlainError
from jupyter_ext.inplace import show
from jupyter_ext.jobs import Jobs
from jupyter_ext.shown import ShownOnce
from scheduler.client import Client
from scheduler.client.arrays import jobs_of
from scheduler.errors import RunaiError, Unavailable
from scheduler.model import JobState
from scheduler.schema import ArrayView, JobView

if TYPE_CHECKING:
    import pandas

MIME = "application/vnd.runai.sweep+json"


@dataclass(frozen=True, slots=True)
class Goal:
    """The metric to minimize, or to maximize (`sign` is -1)."""

    metric: str
    sign: int = 1


def goal(minimize: str | None, maximize: str | None) -> Goal | None:
    return Goal(maximize, -1) if maximize else Goal(minimize) if minimize else None


class Trials(ShownOnce, Jobs):
    """Jobs with their own values; the best one has the lowest, or highest, value of a metric."""

    def __init__(self, jobs: Iterable[Job | JobView | str], name: str, goal: Goal | None) -> None:
        super().__init__(jobs)
        self.id = name
        self.goal = goal
        self._points: dict[str, list[reports.Point]] = {}
        self._offsets: dict[str, int] = {}
        self._looking = threading.Lock()  # a live table looks, too

    # -- state --------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of its jobs, without their numbers."""
        return self._jobs[0].name.rpartition("-")[0] if self._jobs else self.id

    def value(self, job: Job) -> float | None:
        """The last reported value of the metric."""
        for point in reversed(reports.continuous(self._points.get(job.id, ()))):
            found = point.get(self.goal.metric) if self.goal else None
            if isinstance(found, (int, float)):
                return found
        return None

    @property
    def best(self) -> Job:
        """The best job so far, among those that have succeeded if there are any. Raises where none has reported."""
        self._look()
        best = self._best()
        if best is None:
            raise PlainError(
                f"No job has reported {self.goal.metric} yet."
                if self.goal
                else "Name the metric with --minimize METRIC or --maximize METRIC, or Sweep(id, minimize=…)."
            )
        return self._jobs[best]

    @property
    def results(self) -> pandas.DataFrame:
        """A row for each job: its values, its state and its last reports."""
        try:
            import pandas
        except ImportError:
            raise PlainError("sweep.results is a pandas data frame; install pandas: %pip install pandas") from None
        self._look()
        return pandas.DataFrame([self._row(job) for job in self._jobs], index=[job.name for job in self._jobs])

    def _best(self) -> int | None:
        values = [(at, self.value(job)) for at, job in enumerate(self._jobs)]
        sign = self.goal.sign if self.goal else 1
        known = [(sign * value, at) for at, value in values if value is not None]
        done = [(value, at) for value, at in known if self._jobs[at].seen.state is JobState.SUCCEEDED]
        return min(done or known, default=(0, None))[1]

    def _row(self, job: Job) -> dict[str, Any]:
        metrics: dict[str, Any] = {}
        for point in reports.continuous(self._points.get(job.id, ())):
            metrics.update({name: value for name, value in point.items() if name not in reports.FACTS})
        return {**job.seen.parameters, "state": job.seen.state.value, **metrics}

    def _look(self) -> None:
        """Read the jobs and their new reports."""
        with self._looking:
            self._ask(connect())

    def _ask(self, client: Client) -> None:
        before = {job.id: job.seen.state for job in self._jobs}
        views = self.views
        for view in views:
            if view.started is None or (before[view.id].final and view.id in self._offsets):
                continue
            while (page := client.metrics(view.id, offset=self._offsets.get(view.id, 0))).points:
                self._points.setdefault(view.id, []).extend(page.points)
                self._offsets[view.id] = page.next
            self._offsets.setdefault(view.id, 0)

    # -- waiting for it -------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Read them once; whether all jobs have ended."""
        self._look()
        return all(job.seen.state.final for job in self._jobs)

    def wait(self) -> Self:
        """Show the live table until all jobs have ended. Raises `Detached` when interrupted."""
        self.shows_itself()
        handle: Any = None
        try:
            with Changes(self._unfinished) as changes:
                while True:
                    over = self._step()
                    if handle is None:
                        handle = show(self._bundle())
                    else:
                        handle.update(self._bundle(), raw=True)
                    if over:
                        return self
                    changes.wait()
        except KeyboardInterrupt:
            raise Detached(self._detach()) from None
        except Unavailable as error:
            raise PlainError(f"{error.sentence} _job.wait() shows {self.name} again.") from None

    def _detach(self) -> str:
        return (
            f"Detached from {self.name}, which keeps running: _job.wait() shows it again, _job.cancel() stops it; "
            f"after a restart Sweep({self.id!r}).wait()."
        )

    # -- display ---------------------------------------------------------------------------------------

    def _bundle(self) -> dict[str, Any]:
        return {**self._live(), "text/html": self._html(), "text/plain": self._text()}

    def _live(self) -> dict[str, Any]:
        """What our renderer needs to keep the table up to date when the kernel no longer does."""
        ended = sum(job.seen.state.final for job in self._jobs)
        return {
            MIME: {
                "name": self.name,
                "jobs": [job.id for job in self._jobs],
                **self._found_by(),
                "planned": self._planned(),
                "ended": ended,
                "metric": self.goal and self.goal.metric,
                "sign": self.goal.sign if self.goal else 1,
            }
        }

    @abstractmethod
    def _found_by(self) -> dict[str, str]:
        """What names all its jobs: the `array`, or the `driver` in its reports."""

    def _fresh(self) -> None:
        with contextlib.suppress(RunaiError):
            self._look()

    def __repr__(self) -> str:
        self._fresh()
        return self._text()

    def _repr_html_(self) -> str:
        self._fresh()
        return self._html()

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [{**self._row(job), **_failure(job.seen)} for job in self._jobs]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        cells = [
            [job.name, *(parallel.shown(row[name]) if name in row else "" for name in columns)]
            for job, row in zip(self._jobs, rows, strict=True)
        ]
        return ["job", *columns], cells

    def _planned(self) -> int:
        return len(self._jobs)

    def _head(self) -> str:
        ended = sum(job.seen.state.final for job in self._jobs)
        best = self._best()
        failed = sum(job.seen.state is JobState.FAILED for job in self._jobs)
        said = f"{self.name}: {ended} of {self._planned()} jobs ended{f', {failed} failed' if failed else ''}."
        if best is None or self.goal is None:
            return said
        job = self._jobs[best]
        values = ", ".join(f"{name} {parallel.shown(value)}" for name, value in job.seen.parameters.items())
        return f"{said} Best: {job.name} ({values}), {self.goal.metric} {parallel.shown(self.value(job))}."

    def _text(self) -> str:
        head, rows = self._table()
        widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in [head, *rows]
        )
        return "\n".join([self._head(), *lines])

    def _html(self) -> str:
        """Names, values and metrics are a user's text: escaped, always."""
        head, rows = self._table()
        best = self._best()
        top = "".join(f'<th style="text-align: left; padding: 0.25em 0.5em">{html.escape(name)}</th>' for name in head)
        body = "".join(_tr(row, "font-weight: bold" if at == best else "") for at, row in enumerate(rows))
        table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p>{html.escape(self._head())}</p>{self._picture(best)}{table}"

    def _picture(self, best: int | None) -> str:
        names = list(dict.fromkeys(name for job in self._jobs for name in job.seen.parameters))
        rows: list[dict[str, Any]] = [{**job.seen.parameters} for job in self._jobs]
        if self.goal is not None:
            metric = self.goal.metric
            names = [*(name for name in names if name != metric), metric]
            for job, row in zip(self._jobs, rows, strict=True):
                row[metric] = self.value(job)
        return parallel.picture(names, rows, best)


class Sweep(Trials):
    """The jobs of an array, in order. `Sweep("a-…", minimize="loss")` finds one again."""

    def __init__(self, array: str | ArrayView, *, minimize: str | None = None, maximize: str | None = None) -> None:
        super().__init__(
            jobs_of(connect(), array) if isinstance(array, str) else array.jobs,
            array if isinstance(array, str) else array.id,
            goal(minimize, maximize),
        )

    def _found_by(self) -> dict[str, str]:
        return {"array": self.id}

    @property
    def views(self) -> list[JobView]:
        if any(not job.seen.state.final for job in self._jobs):
            told = {view.id: view for view in jobs_of(connect(), self.id)}
            for job in self._jobs:
                job.seen = told.get(job.id, job.seen)
        return [job.seen for job in self._jobs]


def _failure(job: JobView) -> dict[str, str]:
    """The reason of a failure, to show with the state."""
    return {"state": f"failed: {job.reason.rstrip('.')}"} if job.state is JobState.FAILED else {}


def _tr(cells: list[str], style: str) -> str:
    row = "".join(f'<td style="text-align: left; padding: 0.25em 0.5em">{html.escape(cell)}</td>' for cell in cells)
    return f'<tr style="{style}">{row}</tr>'
