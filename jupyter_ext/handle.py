"""A job in the notebook: `_job`, or the value of a magic. `Job(id)` finds any of the user's jobs again."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ext import card, reports
from jupyter_ext.connection import connect, locate
from jupyter_ext.files import Files
from jupyter_ext.follow import Follower
from jupyter_ext.frontend import get_shell, has_renderer, view_of, wants_widgets
from jupyter_ext.serialization import FOLDER, RESULT, VARIABLES, Unreadable, unpack
from jupyter_ext.shown import Shown, ShownOnce
from scheduler.client import Client
from scheduler.errors import Forbidden, NotFound, RunaiError, Unavailable
from scheduler.model import JobKind, JobState
from scheduler.schema import JobView

if TYPE_CHECKING:
    import pandas

    from jupyter_ext.widget import JobWidget


class PlainError(Exception):
    """Ends a cell with a few plain lines instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class JobFailed(PlainError):
    """A job ended without success. `remote` is the traceback of its cell, where it has one, line by line."""

    def __init__(self, name: str, sentence: str, remote: list[str]) -> None:
        super().__init__(f"{name} {sentence}")
        self.name = name
        self.remote = remote
        self.shown = False

    def _render_traceback_(self) -> list[str]:
        if self.shown and self.remote:
            return [f"{self.name} failed; its traceback is above."]
        return [*(line for part in self.remote for line in part.splitlines()), *super()._render_traceback_()]


class Detached(PlainError, KeyboardInterrupt):
    """The kernel was interrupted while it showed a job; the job keeps running."""


class Job(ShownOnce):
    """A job in the pool. Its methods raise the errors of `scheduler.errors`."""

    def __init__(self, job: str | JobView) -> None:
        self.seen = job if isinstance(job, JobView) else connect().job(job)
        """Its latest known state."""
        self._brought: dict[str, Any] | None = None
        self._followed = False
        self._widget: JobWidget | None = None
        self._line: Sequence[reports.Point] = ()

    # -- its state --------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.seen.id

    @property
    def name(self) -> str:
        return self.seen.name

    @property
    def view(self) -> JobView:
        """Its current view from the scheduler."""
        if not self.seen.state.final:
            self.seen = connect().job(self.id)
        return self.seen

    @property
    def state(self) -> JobState:
        return self.view.state

    @property
    def reason(self) -> str:
        return self.view.reason

    def logs(self, rank: int = 0, attempt: int | None = None) -> str:
        """A worker's output so far."""
        client, pieces, offset = connect(), [], 0
        while piece := client.log(self.id, rank=rank, attempt=attempt, offset=offset):
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces).decode("utf-8", errors="replace")

    @property
    def metrics(self) -> pandas.DataFrame:
        """Its reports so far (`job.report(step=…, loss=…)`), one continuous series over all its attempts."""
        client, points, offset = connect(), list[dict[str, Any]](), -1
        while (page := client.metrics(self.id, offset=max(offset, 0))).next != offset:
            points += page.points
            offset = page.next
        try:
            return reports.frame(points)
        except ImportError:
            raise PlainError("_job.metrics is a pandas data frame; install pandas: %pip install pandas") from None

    @property
    def files(self) -> Files:
        """The files in its output folder."""
        return Files(file for file in connect().outputs(self.id) if not file.path.startswith(FOLDER))

    def download(self, path: str, to: str | Path) -> Path:
        """Download one of these files."""
        return connect().download(self.id, path, Path(to))

    # -- verbs ---------------------------------------------------------------------------

    def cancel(self) -> Job:
        """Cancel it."""
        return self._changed(Client.cancel)

    def pause(self) -> Job:
        """Stop it until it is resumed; it continues from its last checkpoint."""
        return self._changed(Client.pause)

    def resume(self) -> Job:
        return self._changed(Client.resume)

    def delete(self) -> None:
        """Delete it with its log, files and checkpoints, once it has ended."""
        connect().delete(self.id)

    def _changed(self, verb: Callable[[Client, str], JobView]) -> Job:
        self.seen = verb(connect(), self.id)
        return self

    # -- waiting for it -------------------------------------------------------------------------------------

    def wait(self) -> Job:
        """Show its states and its output until it has ended. Raises `JobFailed`, or `Detached` when interrupted."""
        self.shows_itself()
        shown = Shown(self.seen)
        try:
            with Follower(locate, self.seen) as happenings:
                for happening in happenings:
                    shown.take(happening)
        except KeyboardInterrupt:
            self.seen = shown.job
            self._prepare()
            handle = shown.detach(self._drawn())
            if not self._settled():
                self.update_in_place(handle)
            raise Detached(
                f"Detached from {self.name}, which keeps running: _job.wait() shows it again, _job.cancel() stops it."
            ) from None
        except Unavailable as error:
            raise PlainError(f"{error.sentence} _job.wait() shows {self.name} again.") from None
        finally:
            shown.close()
        self.seen, self._line, self._followed = shown.job, shown.line, True
        try:
            self._require_success()
        except JobFailed as error:
            error.shown = True
            raise
        return self

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait without output; returns the variables of `--out` by name. Raises `JobFailed` or `TimeoutError`."""
        self.seen = connect().wait(self.id, timeout)
        return self.outputs

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        """`await job` is `job.result()` without blocking the kernel."""
        return asyncio.to_thread(self.result).__await__()

    @property
    def outputs(self) -> dict[str, Any]:
        """The variables that `--out` named, by name. Raises `JobFailed` unless the job has succeeded."""
        if self._brought is None:
            self._require_success()
            self._brought = self._bring() if self.seen.outputs else {}
        return self._brought

    def load(self) -> list[str]:
        """Set the variables of `--out` in the notebook, for example after a restart of the kernel; returns their names.
        Raises `JobFailed` unless the job has succeeded."""
        shell = get_shell()
        if shell is None:
            raise PlainError("There is no notebook to set variables in; use job.outputs.")
        shell.push(self.outputs)
        return list(self.outputs)

    # -- results ------------------------------------------------------------------------------------

    def _require_success(self) -> None:
        job = self.view
        if job.state is JobState.SUCCEEDED:
            return
        if not job.state.final:
            raise PlainError(f"{job.name} has not ended: {card.state(job)}")
        remote: list[str] = []
        if job.kind is JobKind.CELL and job.mine:
            error = (self._report() or {}).get("error") or {}
            remote = [str(line) for line in error.get("traceback", ())]
        raise JobFailed(job.name, card.state(job), remote)

    def _report(self) -> Mapping[str, Any] | None:
        """The result file of the cell's runner, if it was written."""
        try:
            content = json.loads(self._fetch(RESULT))
        except (NotFound, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def _bring(self) -> dict[str, Any]:
        """Unpickle the job's results. That runs code, so it is done only for the user's own jobs."""
        if not connect().job(self.id).mine:
            raise Forbidden(f"{self.name} is another user's job; only its owner can read its variables.")
        report = self._report()
        if report is None:
            raise PlainError(f"{self.name} ended without returning its variables; _job.logs() may tell why.")
        if not self._followed:  # otherwise it was shown at the end of its output
            for name in report["missing"]:
                print(f"`{name}` is not returned: the cell did not assign it.", file=sys.stderr)
            for name, reason in report["refused"].items():
                print(f"`{name}` is not returned: {reason}.", file=sys.stderr)
        if not report["variables"]:
            return {}
        try:
            return unpack(self._fetch(VARIABLES), tuple(report["variables"]))
        except Unreadable as error:
            raise PlainError(
                f"{error} ({error.__cause__}); the job still has it. Use _job.outputs to try again."
            ) from error

    def _fetch(self, path: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="runai-") as folder:
            return connect().download(self.id, path, Path(folder) / "part").read_bytes()

    # -- display ---------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return card.text(self._fresh())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return card.bundle(self._fresh())

    def _ipython_display_(self) -> None:
        self._fresh()
        self._prepare()
        super()._ipython_display_()

    def _prepare(self) -> None:
        """Have a widget where the front end of the running cell needs one."""
        if not self.seen.state.final and wants_widgets(get_shell()):
            self.widget()

    def _settled(self) -> bool:
        return super()._settled() or has_renderer(get_shell())

    def _unfinished(self) -> list[str]:
        return [] if self.seen.state.final else [self.id]

    def _looked(self) -> object:
        job = self._fresh()
        # A new bundle draws a widget anew, which updates itself.
        return job.state if self._open() else card.text(job)

    def _drawn(self) -> dict[str, Any]:
        """The widget until it ends, and then what it has shown."""
        widget = self._open()
        if widget is None:
            return card.bundle(self.seen, line=self._line)
        if not self.seen.state.final:
            return {**card.bundle(self.seen), **view_of(widget)}
        bundle = card.bundle(self.seen, line=widget.line)
        return {**bundle, "text/html": bundle["text/html"] + widget.log}

    def _open(self) -> JobWidget | None:
        return self._widget if self._widget is not None and self._widget.comm is not None else None

    def widget(self) -> JobWidget:
        """The live card as an ipywidget, which front ends without our renderer show automatically."""
        from jupyter_ext.widget import JobWidget

        self._widget = self._open() or JobWidget(self)
        return self._widget

    def _fresh(self) -> JobView:
        try:
            return self.view
        except RunaiError:
            return self.seen
